"""Every limit is documented, and the page is up to date."""

from pathlib import Path

from benchmarks.release.limits_page import read_limits, render
from sct import limits

ROOT = Path(__file__).parents[1]


def test_every_limit_has_a_description():
    constants = {name for name in vars(limits) if name.startswith(("MAX_", "MIN_"))}
    assert {limit.name for limit in read_limits()} == constants


def test_docs_list_the_limits():
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert page == render(), "run python benchmarks/release/limits_page.py docs/limits.md"
