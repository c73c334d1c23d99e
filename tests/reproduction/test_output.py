"""A table with figures made up, as Markdown and as a page."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sct.reproduction.figures import RowResult, RunResult
from sct.reproduction.markdown import markdown
from sct.reproduction.page import page
from sct.reproduction.plots import bar_plots
from sct.reproduction.published import TABLES
from tests.reproduction.made_rows import made_up, some_rows

FIGURES = {
    ("ours", "words"): [{"B4": 17.6, "C": 144.0, "NW": 0.43}, {"B4": 17.6, "C": 148.0, "NW": None}],
    ("controllable_up_down", "words"): [{"B4": 16.0, "C": 100.0, "NW": 0.44}],
}
TABLE = some_rows("table2", ("ours", "controllable_up_down", "fc_2k"))
COMMAND = "sct reproduce table2 --data some_data"


class _Reader(HTMLParser):
    """Collects the tags with their attributes, and the text of cells."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "rect", "line"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("rect", "line"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def with_run(made, system, **changes):
    """The same with one run of a row changed."""
    key = next(key for key in made.results if key.system == system)
    run = replace(made.results[key].runs[0], **changes)
    return replace(made, results={**made.results, key: RowResult(key, (run,))})


def test_markdown_has_ours_beside_the_papers():
    lines = markdown(made_up(TABLE, FIGURES), COMMAND).splitlines()
    assert lines[0] == "# table2: Control by a sequence of regions, COCO Entities"
    assert lines[2].startswith(
        "2 of 3 rows were measured on some_data, val. 1 of 2 claims that could be judged hold, 1 "
    )
    # The spread of 144 and 148 is 2 x sqrt(2); NW has one run.
    assert (
        "| Ours | 2 | 17.6 ± 0.0 (20.9) | - (24.4) | - (52.5) | 146.0 ± 2.8 (193.0) | - (45.3) | 0.430 (0.508) |"
        in lines
    )
    assert "| FC-2K | not run | - (10.4) | - (17.3) | - (36.8) | - (98.3) | - (25.2) | - (0.257) |" in lines
    assert "| Ours above Controllable Up-Down in C (words) | +19.9 % | +46.0 % | held |" in lines
    assert "| Ours above Controllable Up-Down in NW (words) | +0.112 | -0.010 | not held |" in lines
    assert "| Ours above FC-2K in NW (words) | +0.251 | - | not judged |" in lines
    assert "| Stage: words, by C | Ours > Controllable Up-Down | the same | 1 of 1 |" in lines
    assert any(line.endswith("| Controllable Up-Down > Ours | 0 of 1 |") for line in lines)
    assert lines[-2:] == [COMMAND, "```"]


def test_what_is_missing_is_said_with_its_reason():
    made = with_run(made_up(TABLE, FIGURES), "ours", reasons={"M": "no Java\nhere"})
    made = with_run(made, "fc_2k", absent="sct train ended with 2", has_failed=True, name="coco_layout_fc_2k_words")
    text = markdown(made, COMMAND)
    assert "- M is missing: no Java here\n- coco_layout_fc_2k_words failed: sct train ended with 2\n" in text
    assert "| FC-2K | failed | - (10.4) |" in text


def test_a_table_in_which_stages_differ_says_them():
    text = markdown(made_up(TABLES["table4"], {}), COMMAND)
    assert "| Neural Baby Talk | words | not run | - (13.1) |" in text
    assert "| Ours | + CIDEr and nouns | not run | - (18.0) |" in text


def test_the_page_has_the_same_cells_and_plots():
    made = made_up(TABLE, FIGURES)
    read = _Reader(page(made, COMMAND))
    assert read.open == [], "all tags are closed"
    assert {"146.0 ± 2.8 (193.0)", "held", "not held", "not run", "not judged"} <= set(read.cells)
    assert len([tag for tag, _ in read.tags if tag == "svg"]) == 2  # CIDEr and NW
    widths = {attributes["class"]: float(attributes["width"]) for tag, attributes in read.tags if tag == "rect"}
    assert widths.keys() == {"here", "paper"}


@pytest.mark.parametrize("name", [pytest.param('<b>"&|', id="marks"), pytest.param("naïve", id="letters")])
def test_names_are_escaped(name):
    made = made_up(TABLE, FIGURES, data=Path(name))
    made = with_run(made, "ours", absent="<script>alert(1)</script>", has_failed=True, commands=("sct train <x>",))
    text = page(made, f"sct reproduce table2 --data '{name}'")
    tags = {tag for tag, _ in _Reader(text).tags}
    assert not {"b", "script", "x"} & tags
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "naïve" in text or "&lt;b&gt;&quot;&amp;|" in text


def test_the_page_asks_nothing_of_anybody():
    text = page(made_up(TABLE, FIGURES), COMMAND)
    read = _Reader(text)
    assert not {"script", "link", "img", "iframe", "object", "video"} & {tag for tag, _ in read.tags}
    assert not {"src", "href", "action", "data"} & {name for _, attributes in read.tags for name in attributes}
    assert "url(" not in text
    assert "@import" not in text
    policies = [attributes["content"] for tag, attributes in read.tags if "http-equiv" in attributes]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "prefers-color-scheme: dark" in text


def test_nothing_is_drawn_of_what_was_not_measured():
    assert bar_plots(made_up(TABLE, {})) == []


def test_bars_are_as_long_as_their_figures():
    [plot, _] = bar_plots(made_up(TABLE, FIGURES))
    bars = [attributes for tag, attributes in _Reader(plot).tags if tag == "rect"]
    # FC-2K has the paper's alone; the longest, the paper's 193.0, fills the 360 pixels.
    assert [(bar["class"], float(bar["width"])) for bar in bars] == [
        ("paper", pytest.approx(360 * 98.3 / 193, abs=0.1)),
        ("here", pytest.approx(360 * 100 / 193, abs=0.1)),
        ("paper", pytest.approx(360 * 161 / 193, abs=0.1)),
        ("here", pytest.approx(360 * 146 / 193, abs=0.1)),
        ("paper", 360),
    ]


def test_json_has_every_row_with_figures_spreads_and_reasons():
    content = made_up(TABLE, FIGURES).as_dict()
    ours = next(row for row in content["rows"] if row["system"] == "ours")
    assert ours["here"]["C"] == {"mean": 146.0, "spread": pytest.approx(8**0.5), "runs": 2}
    assert ours["here"]["M"] is None
    fc_2k = next(row for row in content["rows"] if row["system"] == "fc_2k")
    assert [run["absent"] for run in fc_2k["runs"]] == ["not run"]
    assert [claim["holds"] for claim in content["claims"]] == [True, False, None, None]


def test_a_run_without_figures_is_not_counted():
    row = RowResult(TABLE.sections[0].rows[0].key, (RunResult(name="a", absent="not run"), RunResult(name="b")))
    assert row.is_measured
    assert row.figure("C") is None
