"""The reference of the HTTP API at /docs, rendered from openapi.json without scripts from other hosts."""

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import expect


def test_reference_lists_all_routes_and_fields(open_page):
    page = open_page("docs").page
    routes = page.locator("h2")
    expect(routes).to_have_text(
        [
            "POST /v1/caption",
            "POST /v1/alternatives",
            "POST /v1/detect",
            "POST /v1/score",
            "GET /v1/health",
            "GET /v1/metrics",
        ]
    )
    caption = page.locator("section").first
    row = caption.get_by_role("row", name="beam_size").first
    expect(row).to_contain_text("integer, 1 to 10")
    expect(caption.get_by_role("row", name="no_repeat_ngram_size").first).to_contain_text("integer, 0 to 40 or null")
    expect(caption.get_by_role("row", name="429")).to_contain_text("Too many requests")
    expect(caption).to_contain_text("multipart/form-data")
    expect(caption).to_contain_text('"text": "two dogs"')
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
