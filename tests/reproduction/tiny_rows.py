"""Two rows of a table on the tiny dataset, as tests ask for them and look at them."""

from pathlib import Path

from sct.reproduction.request import Request
from sct.reproduction.runs import Workplace
from tests.reproduction.made_rows import RECIPES, some_rows
from tests.reproduction.tiny_data import SMALL

METRICS = ("B4", "R", "C")
TABLE = some_rows("table2", ("ours", "controllable_up_down"))
OURS, RIVAL = "coco_layout_words", "coco_layout_controllable_up_down_words"


def request_in(folder: Path, data: Path, **changes) -> Request:
    """What is asked for in a test's folder."""
    place = Workplace(
        data=data, runs=folder / "runs", recipes=RECIPES, settings=changes.pop("settings", SMALL), accelerator="cpu"
    )
    return Request(**({"place": place, "seeds": 1, "metrics": METRICS} | changes))


def figures(made):
    """The figures of the first run of each row, by its system."""
    return {row.key.system: made.results[row.key].runs[0].figures for row in made.table.rows()}


def figures_alone(folder: Path) -> None:
    """Leave of a run what a repository may keep."""
    kept = {"recipe.toml", "reproduction.json", "made_of.json", "scores.json"}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name not in kept:
            path.unlink()
