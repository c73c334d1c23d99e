r"""The appendix's table of sorters on a prepared dataset, and how far people agree with each other on it.

    sct prepare coco-layout/ build/coco_layout
    python benchmarks/quality/sorters.py recipes/sorter/coco_layout.toml --out build/sorters/coco_layout \
        [--data build/coco_layout] [--seeds 3] [--kinds ...] [--detections FILE.npz] [--json] [KEY=VALUE ...]

Every sorter is trained as ``sct train`` does it: the best epoch is chosen on a tenth of the training images, the val
split is scored once. A sorter that stands in ``--out`` already is not trained again. Two rows beyond the paper:
``sinkhorn, place`` learns the place of each set by cross-entropy, and ``pointer`` is an attention pointer network.

The row ``probability`` needs a detector's scores. Boxes that people drew have none, but where there are images a
detector may be asked how sure it is of what is there:

    python benchmarks/quality/efficientdet.py flickr8k-entities/train.jsonl flickr8k-entities/val.jsonl \
        build/detections.npz --min-score 0.05 --weights efficientdet-lite2.tflite    # its head says where to get it
    python benchmarks/quality/sorters.py recipes/sorter/flickr8k.toml --out build/sorters/flickr8k \
        --detections build/detections.npz

A box has the score of the surest detection, of whatever class, that overlaps it by IoU 0.5 or more, and 0 where none
does; a region set has that of its surest box. Sets of equal scores stay in the random order they came in.
``OUT/scored`` is then a copy of the dataset with these scores.

The second table asks how right a sorter can be. It looks at captions of the same image that name the same region
sets: ``agreement`` is how often two people give them the same order. No sorter, whatever it sees of the image, can
on average be right more often than ``ceiling``: where an image's orders have the shares p, two people agree with
probability sum p^2, while the best guess is right with probability max p, at most the root of that (of two sets,
exactly (1 + sqrt(2 sum p^2 - 1)) / 2). Roots are concave, so the root of the mean bounds the mean of the roots. The
same for tau: between two people it is (2 p - 1)^2 for a pair of sets, for the best guess |2 p - 1|.
"""

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from sct.data.dataset import Dataset, write_dataset
from sct.data.samples import RegionSets
from sct.data.table import Table
from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.regions.boxes import box_iou
from sct.sorting.baselines import DetectionProbability
from sct.sorting.batches import CaptionControls, extract_caption_controls
from sct.sorting.metrics import OrderScores, score_orders
from sct.sorting.serialization import load_sorter
from sct.training.sorter.config import SorterRecipe
from sct.training.sorter.data import BEST, SCORES, VALIDATION, SortingData, score_sorter
from sct.training.sorter.trainer import train_sorter

KINDS: Mapping[str, Mapping[str, str]] = {
    "probability": {"kind": "probability"},
    "class_order": {"kind": "class_order"},
    "svm_rank": {"kind": "svm_rank"},
    "sinkhorn": {"kind": "sinkhorn"},
    "sinkhorn, place": {"kind": "sinkhorn", "loss": "place"},
    "pointer": {"kind": "pointer"},
}
WITHOUT_CHANCE = ("probability", "class_order")
"""Kinds that are the same for every seed."""
FOUND_AT = 0.5
"""IoU from which on a detection and a box are of the same thing."""
TIES_DRAWN = 100


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far people agree on the order of the same region sets of the same image."""

    captions: int
    """Those that another caption can be compared with."""
    agreement: float
    tau: float
    ceiling: float
    tau_ceiling: float


def run(recipe: Path, changes: Mapping[str, str], out: Path, name: str, seed: int) -> dict[str, Any]:
    """Train one sorter, unless it is there, and give its scores."""
    folder = out / f"{name.replace(', ', '-')}-{seed}"
    if not (folder / SCORES).exists():
        settings = {"out": str(folder), "seed": str(seed), **KINDS[name], **changes}
        words = [f"{key}={value}" for key, value in settings.items()]
        if not train_sorter(SorterRecipe.load(recipe, words), resume=folder.exists()).finished:
            raise KeyboardInterrupt  # it was asked to stop, and so is everything else
    found: dict[str, Any] = json.loads((folder / SCORES).read_text())
    return found


def write_scored(data: Path, detections: Path, folder: Path) -> Table:
    """Write a copy of a dataset whose regions have the scores of a detector."""
    dataset = Dataset.open(data)
    scores = detected_scores(dataset.table, detections)
    table = replace(dataset.table, columns={**dataset.table.columns, "region_score": scores.astype(np.float16)})
    write_dataset(folder, table, dataset.vocabulary, dataset.manifest, dataset.nouns)
    return table


def detected_scores(table: Table, detections: Path) -> Float[np.ndarray, " regions"]:
    """The score of the surest detection on each region, 0 where there is none; each image must have been looked at."""
    with np.load(detections) as file:
        found = {name: file[name] for name in ("image", "size", "image_of_box", "box", "score")}
    row_of_name = {name: row for row, name in enumerate(found["image"].tolist())}
    scores = np.zeros(len(table.columns["region_box"]), np.float32)
    by_image = np.argsort(found["image_of_box"], kind="stable")
    ends = np.searchsorted(found["image_of_box"], np.arange(len(row_of_name) + 1), sorter=by_image)
    first_region = table.columns["region_offsets"].astype(np.int64)
    for image, name in enumerate(table.image_files):
        row = row_of_name.get(name)
        if row is None:
            raise InputError(f"{detections} holds nothing of image {name!r}: expected all images of the dataset")
        if found["size"][row].tolist() != table.columns["image_size"][image].tolist():
            raise InputError(f"image {name!r} has another size in {detections} than in the dataset: expected the same")
        seen = by_image[ends[row] : ends[row + 1]]
        regions = slice(first_region[image], first_region[image + 1])
        overlaps = box_iou(table.columns["region_box"][regions], found["box"][seen])
        scores[regions] = np.where(overlaps >= FOUND_AT, found["score"][seen], 0.0).max(axis=1, initial=0.0)
    return scores


def scores_of_ties(table: Table, controls: CaptionControls, vectors: WordVectors) -> str:
    """The order by probability from many random orders to begin with, as what is tied is left in them; for people."""
    data = SortingData(table, controls, vectors)
    batches = (data.batch(np.arange(len(data)), np.random.default_rng(seed)) for seed in range(1, 1 + TIES_DRAWN))
    scores = [score_orders(DetectionProbability().order(batch.inputs), batch.truth) for batch in batches]
    return f"{_cell([100 * each.accuracy for each in scores], 1)} / {_cell([each.tau for each in scores], 3)}"


def surely_seen(table: Table, controls: CaptionControls) -> str:
    """How many region sets have a detection at all, and how many controls have sets of equal scores, for people."""
    starts, scores = table.columns["region_offsets"].astype(np.int64), table.columns["region_score"]
    seen = [
        [float(scores[starts[image] + np.array(members)].max()) for members in control]
        for image, control in zip(controls.images.tolist(), controls.controls, strict=True)
    ]
    sets = [score for control in seen for score in control]
    share = 100 * float(np.mean(np.array(sets) > 0))
    ties = sum(len(set(control)) < len(control) for control in seen)
    return (
        f"{share:.1f} % of {len(sets):,} region sets have a detection; {ties} of {len(seen)} controls have equal scores"
    )


class SharedControls:
    """Val captions whose image has another caption of the same region sets, so that people can be compared."""

    def __init__(self, table: Table) -> None:
        """Find them."""
        self._table = table
        every = extract_caption_controls(self._table, VALIDATION)
        rows: dict[tuple[int, tuple[tuple[int, ...], ...]], list[int]] = {}
        for row, (image, control) in enumerate(zip(every.images.tolist(), every.controls, strict=True)):
            rows.setdefault((image, tuple(sorted(control))), []).append(row)
        shared = [group for group in rows.values() if len(group) > 1]
        self._controls = every.some(np.array([row for group in shared for row in group]))
        self._groups = [[every.controls[row] for row in group] for group in shared]

    def people(self) -> dict[int, Agreement]:
        """Agreement by how many sets the captions name; 0: all of them."""
        sizes = sorted({len(group[0]) for group in self._groups})
        by_sets = {sets: _agreement([group for group in self._groups if len(group[0]) == sets]) for sets in sizes}
        total = sum(part.captions for part in by_sets.values())

        def weighed(name: str) -> float:
            return float(sum(getattr(part, name) * part.captions for part in by_sets.values()) / total)

        return {0: Agreement(total, *map(weighed, ("agreement", "tau", "ceiling", "tau_ceiling"))), **by_sets}

    def score(self, folder: Path) -> OrderScores:
        """A saved sorter on these captions."""
        sorter = load_sorter(folder)
        return score_sorter(sorter.sorter, SortingData(self._table, self._controls, sorter.vectors))


def _agreement(groups: Sequence[Sequence[RegionSets]]) -> Agreement:
    captions = sum(map(len, groups))
    same = tau = 0.0
    for group in groups:
        pairs = list(combinations(group, 2))
        same += len(group) * mean(float(one == other) for one, other in pairs)
        tau += len(group) * mean(kendall(one, other) for one, other in pairs)
    same, tau, sets = same / captions, tau / captions, len(groups[0][0])
    ceiling = (1 + max(2 * same - 1, 0) ** 0.5) / 2 if sets == 2 else same**0.5
    return Agreement(captions, same, tau, ceiling, max(tau, 0) ** 0.5)


def kendall(one: RegionSets, other: RegionSets) -> float:
    """Kendall's tau of two orders of the same sets."""
    place = {members: number for number, members in enumerate(other)}
    signs = [1 if place[first] < place[second] else -1 for first, second in combinations(one, 2)]
    return sum(signs) / len(signs)


def _cell(values: Sequence[float], digits: int) -> str:
    spread = f" +- {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{spread}"


def _by_people(runs: Sequence[dict[str, Any]]) -> str:
    if runs[0]["val_by_people"] is None:
        return "-"
    accuracy = _cell([100 * run["val_by_people"]["accuracy"] for run in runs], 1)
    return f"{accuracy} / {_cell([run['val_by_people']['tau'] for run in runs], 3)}"


def print_table(rows: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """Means over seeds with their standard deviation; accuracy and tau for all controls, then by number of sets."""
    sizes = list(next(iter(rows.values()))[0]["val_by_sets"])
    counts = {sets: next(iter(rows.values()))[0]["val_by_sets"][sets]["controls"] for sets in sizes}
    print(
        "| sorter | seeds | accuracy | tau | grounded by people | "
        + " | ".join(f"{s} sets ({counts[s]:,})" for s in sizes)
        + " |"
    )
    print("| --- |" + " ---: |" * (4 + len(sizes)))
    for name, runs in rows.items():
        cells = [
            _cell([100 * run["val"]["accuracy"] for run in runs], 1),
            _cell([run["val"]["tau"] for run in runs], 3),
            _by_people(runs),
            *(
                f"{mean(100 * run['val_by_sets'][s]['accuracy'] for run in runs):.1f} / "
                f"{mean(run['val_by_sets'][s]['tau'] for run in runs):.3f}"
                for s in sizes
            ),
        ]
        print(f"| {name} | {len(runs)} | " + " | ".join(cells) + " |")


def main() -> None:
    """Train what is missing and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="settings over the recipe's")
    parser.add_argument("--data", help="dataset folder instead of the recipe's")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), help="all, probability only with --detections")
    parser.add_argument("--detections", type=Path, metavar="FILE.npz", help="scores for the row probability")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = options.data or SorterRecipe.load(options.recipe).data
    changes = {"data": data, **dict(word.split("=", 1) for word in options.settings)}
    kinds = options.kinds or [kind for kind in KINDS if kind != "probability" or options.detections]
    of_probability, table = changes, Dataset.open(Path(data)).table
    if options.detections is not None:
        of_probability = {**changes, "data": str(options.out / "scored")}
        table = write_scored(Path(data), options.detections, options.out / "scored")
    rows = {
        name: [run(options.recipe, changes, options.out, name, seed) for seed in range(1, 1 + options.seeds)]
        if name not in WITHOUT_CHANCE
        else [run(options.recipe, of_probability if name == "probability" else changes, options.out, name, 1)]
        for name in kinds
    }
    shared = SharedControls(table)
    agreement = shared.people()
    if options.json:
        print(json.dumps({"sorters": rows, "people": {s: asdict(part) for s, part in agreement.items()}}))
        return
    print(f"{platform.machine()}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d}\n")
    print_table(rows)
    if options.detections is not None and "probability" in rows:
        controls = extract_caption_controls(table, VALIDATION)
        print(f"\ndetections: {surely_seen(table, controls)}")
        vectors = load_sorter(options.out / "probability-1" / BEST).vectors
        human_grounded = controls.some(np.flatnonzero(controls.human_grounded))
        parts = {"all": controls, "grounded by people": human_grounded} if len(human_grounded) else {"all": controls}
        for name, chosen in parts.items():
            print(f"probability, mean of {TIES_DRAWN} draws of ties, {name}: {scores_of_ties(table, chosen, vectors)}")
    print("\n| people: sets | captions | agreement | ceiling | tau between two | tau ceiling |")
    print("| --- |" + " ---: |" * 5)
    for sets, part in agreement.items():
        shares = f"{100 * part.agreement:.1f} | {100 * part.ceiling:.1f} | {part.tau:.3f} | {part.tau_ceiling:.3f}"
        print(f"| {sets or 'all'} | {part.captions:,} | {shares} |")
    print("")
    for name, runs in rows.items():
        scores = [shared.score(Path(run["out"]) / BEST) for run in runs]
        accuracy, tau = mean(100 * score.accuracy for score in scores), mean(score.tau for score in scores)
        print(f"{name} on the same captions: accuracy {accuracy:.1f}, tau {tau:.3f}")


if __name__ == "__main__":
    main()
