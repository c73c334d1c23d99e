"""Markdown, HTML and JSON of a table with made-up figures."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sct.reproduction.published import TABLES
from sct.reproduction.report import plot_bars, to_html, to_markdown
from sct.reproduction.results import RowResult, RunResult
from tests.reproduction.helpers import make_reproduction, select_rows

FIGURES = {
    ("ours", "cross_entropy"): [{"B4": 17.6, "C": 144.0, "NW": 0.43}, {"B4": 17.6, "C": 148.0, "NW": None}],
    ("controllable_up_down", "cross_entropy"): [{"B4": 16.0, "C": 100.0, "NW": 0.44}],
}
TABLE = select_rows("table2", ("ours", "controllable_up_down", "fc_2k"))
COMMAND = "sct reproduce table2 --data some_data"


class _Reader(HTMLParser):
    """Collects tags with attributes, and the text of cells."""

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


def replace_run(made, system, **changes):
    """Change the first run of a row."""
    key = next(key for key in made.results if key.system == system)
    run = replace(made.results[key].runs[0], **changes)
    return replace(made, results={**made.results, key: RowResult(key, (run,))})


def test_markdown():
    lines = to_markdown(make_reproduction(TABLE, FIGURES), COMMAND).splitlines()
    assert lines[0] == "# table2: Control by a sequence of regions, COCO Entities"
    assert lines[2].startswith(
        "2 of 3 rows were measured on some_data, val. Of 0 claims with several seeds on both sides 0 hold beyond the "
        "spread of seeds, 0 of them by the paper's margin or more, and 0 are within it; of 2 claims with one seed on a "
        "side 1 have the paper's sign, which is no verdict."
    )
    assert any(line.startswith("| Controllable Up-Down | 1, no spread | 16.0") for line in lines)
    # The standard deviation of 144 and 148 is 2 x sqrt(2); NW has one run.
    assert (
        "| Ours | 2 | 17.6 ± 0.0 (20.9) | - (24.4) | - (52.5) | 146.0 ± 2.8 (193.0) | - (45.3) | 0.430 (0.508) |"
        in lines
    )
    assert "| FC-2K | not run | - (10.4) | - (17.3) | - (36.8) | - (98.3) | - (25.2) | - (0.257) |" in lines
    assert "| Ours above Controllable Up-Down in C (cross-entropy) | +19.9 % | +46.0 % | one seed: above |" in lines
    assert "| Ours above Controllable Up-Down in NW (cross-entropy) | +0.112 | -0.010 | one seed: not above |" in lines
    assert "| Ours above FC-2K in NW (cross-entropy) | +0.251 | - | not measured |" in lines
    assert "| Stage: cross-entropy, by C | Ours > Controllable Up-Down | the same | 1 of 1 |" in lines
    assert any(line.endswith("| Controllable Up-Down > Ours | 0 of 1 |") for line in lines)
    assert lines[-2:] == [COMMAND, "```"]


def test_missing_metrics_and_runs_are_listed_with_reasons():
    made = replace_run(make_reproduction(TABLE, FIGURES), "ours", unavailable={"M": "no Java\nhere"}, vectors="glove")
    made = replace_run(made, "fc_2k", missing_reason="exit code 2", failed=True, name="fc_2k_run")
    text = to_markdown(made, COMMAND)
    assert (
        "- NW and IoU compare nouns by glove.\n- M is missing: no Java here\n- fc_2k_run failed: exit code 2\n" in text
    )
    assert "| FC-2K | failed | - (10.4) |" in text


def test_stage_column_if_stages_differ():
    text = to_markdown(make_reproduction(TABLES["table4"], {}), COMMAND)
    assert "| Neural Baby Talk | cross-entropy | not run | - (13.1) |" in text
    assert "| Ours | + CIDEr and NW | not run | - (18.0) |" in text


def test_html_has_the_same_cells_and_plots():
    made = make_reproduction(TABLE, FIGURES)
    read = _Reader(to_html(made, COMMAND))
    assert read.open == [], "all tags are closed"
    assert {"146.0 ± 2.8 (193.0)", "one seed: above", "one seed: not above", "not run", "not measured"} <= set(
        read.cells
    )
    assert len([tag for tag, _ in read.tags if tag == "svg"]) == 2  # CIDEr and NW
    widths = {attributes["class"]: float(attributes["width"]) for tag, attributes in read.tags if tag == "rect"}
    assert widths.keys() == {"here", "paper"}


@pytest.mark.parametrize("name", [pytest.param('<b>"&|', id="marks"), pytest.param("naïve", id="letters")])
def test_html_is_escaped(name):
    made = make_reproduction(TABLE, FIGURES, data=name)
    made = replace_run(
        made, "ours", missing_reason="<script>alert(1)</script>", failed=True, commands=("sct train <x>",)
    )
    text = to_html(made, f"sct reproduce table2 --data '{name}'")
    tags = {tag for tag, _ in _Reader(text).tags}
    assert not {"b", "script", "x"} & tags
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "naïve" in text or "&lt;b&gt;&quot;&amp;|" in text


def test_html_loads_nothing():
    text = to_html(make_reproduction(TABLE, FIGURES), COMMAND)
    read = _Reader(text)
    assert not {"script", "link", "img", "iframe", "object", "video"} & {tag for tag, _ in read.tags}
    assert not {"src", "href", "action", "data"} & {name for _, attributes in read.tags for name in attributes}
    assert "url(" not in text
    assert "@import" not in text
    policies = [attributes["content"] for tag, attributes in read.tags if "http-equiv" in attributes]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "prefers-color-scheme: dark" in text


def test_no_plots_without_measured_rows():
    assert plot_bars(make_reproduction(TABLE, {})) == []


def test_bar_lengths_are_proportional():
    [plot, _] = plot_bars(make_reproduction(TABLE, FIGURES))
    bars = [attributes for tag, attributes in _Reader(plot).tags if tag == "rect"]
    # FC-2K was not measured; the longest bar, the paper's 193.0, is 360 pixels.
    assert [(bar["class"], float(bar["width"])) for bar in bars] == [
        ("paper", pytest.approx(360 * 98.3 / 193, abs=0.1)),
        ("here", pytest.approx(360 * 100 / 193, abs=0.1)),
        ("paper", pytest.approx(360 * 161 / 193, abs=0.1)),
        ("here", pytest.approx(360 * 146 / 193, abs=0.1)),
        ("paper", 360),
    ]


def test_json():
    content = make_reproduction(TABLE, FIGURES).as_dict()
    ours = next(row for row in content["rows"] if row["system"] == "ours")
    assert ours["here"]["C"] == {"mean": 146.0, "std": pytest.approx(8**0.5), "runs": 2}
    assert ours["here"]["M"] is None
    fc_2k = next(row for row in content["rows"] if row["system"] == "fc_2k")
    assert [run["missing_reason"] for run in fc_2k["runs"]] == ["not run"]
    assert [claim["holds"] for claim in content["claims"]] == [None] * 4


def test_aggregate_skips_runs_without_the_metric():
    row = RowResult(TABLE.sections[0].rows[0].key, (RunResult(name="a", missing_reason="not run"), RunResult(name="b")))
    assert row.is_measured
    assert row.figure("C") is None
