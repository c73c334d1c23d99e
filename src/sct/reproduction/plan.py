"""Which runs make a row: its stages one after the other, each a recipe with a few settings over it.

A system that has recipes of its own is trained by them; any other by those of ours, with ``model.variant`` over the
first stage, which later stages take over with the bundle. The first run of a row has its recipe's seed and the plain
name; the second is ``NAME_seed2``, with seed 2, and so on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from sct.reproduction.published import STAGES, Data, RowKey

RunKind = Literal["words", "cider", "nouns", "sorter"]
"""What a run does: a stage of a captioner, or a sorter."""
RUN_KINDS: tuple[RunKind, ...] = get_args(RunKind)

REPEATED = frozenset({"ours", "controllable_up_down", "svm_rank", "sinkhorn"})
"""Systems that are trained several times, to see how far seeds differ."""
SORTER = "sinkhorn"
"""What puts sets in order for every row of a table of control by sets."""

_OWN_RECIPES: Mapping[Data, frozenset[str]] = {
    "coco": frozenset(
        {
            "fc_2k",
            "up_down",
            "neural_baby_talk",
            "controllable_lstm",
            "controllable_up_down",
            "ag_cvae",
            "pos",
        }
    ),
    "flickr": frozenset(),
}
_CAPTIONERS: Mapping[Data, str] = {"coco": "coco_layout", "flickr": "flickr8k_images"}
_SORTERS: Mapping[Data, str] = {"coco": "sorter_coco_layout", "flickr": "sorter_flickr8k"}


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run of ``sct train``."""

    name: str
    """Of its folder among the runs."""
    recipe: str
    """The recipe's file without its ending."""
    kind: RunKind
    settings: tuple[str, ...]
    """``key=value`` words over the recipe, apart from where things are."""
    start: "PlannedRun | None" = None
    """The run whose best bundle it starts from."""


def number_of_seeds(system: str, seeds: int) -> int:
    """How often a system is trained where those that are trained several times are trained so often."""
    return seeds if system in REPEATED else 1


def planned_run(key: RowKey, seed: int = 1) -> PlannedRun:
    """The run whose result is judged for a row, with all that it starts from; ``seed`` counts from 1.

    >>> run = planned_run(RowKey("coco", "single_sentinel", "cider"), seed=2)
    >>> run.name, run.recipe, run.start.settings
    ('coco_layout_single_sentinel_cider_seed2', 'coco_layout_cider', ('model.variant=single_sentinel', 'seed=2'))
    """
    of_seed = (f"seed={seed}",) if seed > 1 else ()
    ending = f"_seed{seed}" if seed > 1 else ""
    if not key.stage:
        recipe = _SORTERS[key.data]
        if key.system == SORTER:
            return PlannedRun(f"{recipe}{ending}", recipe, "sorter", of_seed)
        return PlannedRun(f"{recipe}_{key.system}{ending}", recipe, "sorter", (f"kind={key.system}", *of_seed))
    prefix = _CAPTIONERS[key.data]
    own_name = prefix if key.system == "ours" else f"{prefix}_{key.system}"
    of_recipe = own_name if key.system in _OWN_RECIPES[key.data] else prefix
    place = STAGES.index(key.stage)
    start = planned_run(key._replace(stage=STAGES[place - 1]), seed) if place else None
    is_variant = start is None and of_recipe != own_name
    variant = (f"model.variant={key.system}",) if is_variant else ()
    return PlannedRun(
        f"{own_name}_{key.stage}{ending}", f"{of_recipe}_{key.stage}", key.stage, (*variant, *of_seed), start
    )
