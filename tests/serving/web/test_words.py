"""Names of regions, words that are banned or required, and doubts, with a mocked API."""

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import expect

from tests.serving.web.page import (
    CHIP,
    CHUNK,
    PILL,
    UNKNOWN_WORD,
    WORD,
    caption_text,
    chip_names,
    mock_api,
    open_sample,
    wait_for_caption,
)

NAME_FIELD = ".rename input"


def rename(page, position: int, name: str) -> None:
    page.locator(CHIP).nth(position).get_by_role("button", name=f"Rename region {position + 1}").click()
    expect(page.locator(NAME_FIELD)).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")


def test_rename_a_region(otters):
    page = otters.page
    rename(page, 1, " white  horse ")
    expect(page.locator(CHUNK).nth(1)).to_contain_text("a white horse")
    assert otters.requests[-1]["classes"] == [[None], ["white horse"], [None]]
    assert chip_names(page)[1] == "white horse"
    expect(page.get_by_role("button", name="Region 2 of 3: white horse, named by you")).to_be_focused()
    otters.screenshot("renamed")
    page.keyboard.press("Control+z")
    wait_for_caption(page)
    assert chip_names(page)[1] == "rock"
    assert "classes" not in otters.requests[0]
    page.keyboard.press("Control+Shift+z")
    wait_for_caption(page)
    assert chip_names(page)[1] == "white horse"
    page.locator(CHIP).nth(1).locator(".chip-name").focus()
    page.keyboard.press("F2")
    expect(page.locator(NAME_FIELD)).to_have_value("white horse")
    page.keyboard.press("Delete")
    page.keyboard.press("Enter")  # without a name, the detected one counts again
    wait_for_caption(page)
    assert chip_names(page)[1] == "rock"


def test_escape_cancels_renaming(otters):
    page = otters.page
    page.locator(CHIP).first.locator(".chip-name").dblclick()
    expect(page.locator(NAME_FIELD)).to_be_focused()
    page.keyboard.type("horse")
    page.keyboard.press("Escape")
    expect(page.locator(NAME_FIELD)).to_have_count(0)
    assert chip_names(page)[0] == "otter"


def test_a_name_survives_a_move_of_its_box(otters):
    page = otters.page
    rename(page, 0, "seal")
    expect(page.locator(CHUNK).first).to_contain_text("a seal")
    page.locator(".control-box").first.focus()
    page.keyboard.press("ArrowRight")
    wait_for_caption(page)
    assert chip_names(page)[0] == "seal"


def test_refused_names_are_explained_and_undone(otters):
    page = otters.page
    before = caption_text(page)
    rename(page, 0, UNKNOWN_WORD)
    expect(page.get_by_role("alert")).to_contain_text(f"word '{UNKNOWN_WORD}' is not among")
    page.get_by_role("button", name="Undo the last change").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    wait_for_caption(page)
    assert caption_text(page) == before
    otters.errors.clear()  # the browser logs the status 422


def test_words_that_the_server_offers_are_one_click_away(otters):
    page = otters.page
    rename(page, 0, f"white {UNKNOWN_WORD}")
    page.get_by_role("button", name="Use “seal”").click()
    expect(page.locator(CHUNK).first).to_contain_text("a white seal")
    wait_for_caption(page)
    assert chip_names(page)[0] == "white seal"
    expect(page.get_by_role("alert")).to_have_count(0)
    otters.errors.clear()  # the browser logs the status 422


def test_ban_a_word_of_the_caption(otters):
    page = otters.page
    page.locator(WORD, has_text="sandy").click()
    expect(page.locator(".detail")).to_contain_text("“sandy” comes from looking at region 2")
    page.get_by_role("button", name="t say “sandy”").click()
    expect(page.locator(CHUNK).nth(1)).to_have_text("2a rock")
    assert otters.requests[-1]["banned_words"] == ["sandy"]
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(CHUNK).nth(1)).to_have_text("2a sandy rock")
    page.get_by_role("button", name="Redo").click()
    page.get_by_role("button", name="Remove “sandy”").click()
    expect(page.locator(CHUNK).nth(1)).to_have_text("2a sandy rock")


def test_banned_and_required_words_exclude_each_other(otters):
    page = otters.page
    page.get_by_label("Word the caption must say").fill("Otter, otter water!")
    page.keyboard.press("Enter")
    expect(page.locator(".required .word-chip")).to_have_text(["otter", "water"])
    wait_for_caption(page)
    assert otters.requests[-1]["required_words"] == ["otter", "water"]
    page.get_by_label("Word the caption must not say").fill("water")
    page.locator(".banned").get_by_role("button", name="Add to").click()
    expect(page.locator(".required .word-chip")).to_have_text(["otter"])
    expect(page.locator(".banned .word-chip")).to_have_text(["water"])
    otters.screenshot("words")


def test_word_actions_by_keyboard(otters):
    page = otters.page
    page.locator(WORD).first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="t say “brown”")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(WORD).nth(1)).to_be_focused()
    expect(page.locator(".word-actions")).to_have_count(0)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Rename region 1").first.click()
    expect(page.locator(NAME_FIELD)).to_be_focused()


def test_links_have_names_and_words(otters, open_page):
    page = otters.page
    rename(page, 0, "sea; lion")
    page.get_by_label("Word the caption must not say").fill("sandy")
    page.keyboard.press("Enter")
    wait_for_caption(page)
    before = caption_text(page)
    page.get_by_role("button", name="Copy link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    other = open_page(None)
    requests = mock_api(other.page)
    other.go(link.removeprefix(otters.address + "/"))
    wait_for_caption(other.page)
    assert caption_text(other.page) == before
    assert (requests[-1]["classes"][0], requests[-1]["banned_words"]) == (["sea; lion"], ["sandy"])


def test_doubtful_chunks_are_marked_in_words(otters):
    page = otters.page
    expect(page.locator(f"{CHUNK}.doubtful")).to_have_count(0)
    page.get_by_role("button", name="Add float").click()
    expect(page.locator(f"{CHUNK}.doubtful")).to_contain_text("a blue float")
    expect(page.locator(".detail")).to_contain_text(
        "Doubtful: “a blue float” (region 4) may not be what the image shows"
    )
    expect(page.locator(CHIP).last).to_contain_text("doubtful")
    assert "%" not in page.locator("main").inner_text()
    page.locator(f"{CHUNK}.doubtful {WORD}").last.hover()
    expect(page.locator(".detail")).to_contain_text("“a blue float” may not fit region 4")
    page.mouse.move(2, 2)
    otters.screenshot("doubtful")
    rename(page, 3, "buoy")
    expect(page.locator(f"{CHUNK}.doubtful")).to_have_count(0)


@pytest.mark.parametrize("fits", [{}, {"fits": None}], ids=["absent", "null"])
def test_without_fits_nothing_is_said(open_page, fits):
    session = open_page(None)
    page = session.page
    mock_api(page)
    word = {"text": "dog", "region_set": 0, "attention": [0.9], "sentinel_weight": 0.1, "shift_probability": 0.5}
    caption = {
        "text": "dog", "log_prob": -1, "words": [word],
        "chunks": [{"text": "dog", "words": [0, 1], "region_set": 0, **fits}],
        "order": None, "control": [[[10, 10, 200, 200]]], "classes": [["dog"]],
    }  # fmt: skip
    page.route("**/v1/caption", lambda r: r.fulfill(json={"image": {"id": "0" * 64}, "captions": [caption]}))
    session.go()
    open_sample(session)
    page.locator(WORD).hover()
    expect(page.locator(".detail")).to_have_text("“dog” comes from looking at region 1.")
    expect(page.locator(".doubtful, .doubt-note")).to_have_count(0)
    expect(page.locator(PILL).first).to_be_visible()
