r"""Sorters of appendix A on a prepared dataset, and agreement between human captions.

    sct prepare coco-layout/ build/coco_layout
    python benchmarks/quality/sorters.py recipes/sorter/coco_layout.toml --out build/sorters/coco_layout \
        [--data build/coco_layout] [--seeds 3] [--kinds ...] [--detections FILE.npz] [--json] [KEY=VALUE ...]

Sorters are trained like ``sct train``: the best epoch is selected on a tenth of the training images, and the val split
is scored once. Sorters that exist in ``--out`` are not trained again. Two rows are not in the paper: ``sinkhorn,
position`` predicts the position of each set with cross-entropy, and ``pointer`` is a pointer network.

``detection_probability`` needs detector scores, which human boxes do not have. With images they come from a detector:

    python benchmarks/quality/efficientdet.py flickr8k-entities/train.jsonl flickr8k-entities/val.jsonl \
        build/detections.npz --min-score 0.05 --weights efficientdet-lite2.tflite    # see its docstring
    python benchmarks/quality/sorters.py recipes/sorter/flickr8k.toml --out build/sorters/flickr8k \
        --detections build/detections.npz

A box gets the highest score of the detections, of any class, that overlap it with IoU 0.5 or more, otherwise 0; a
region set gets the highest score of its boxes. Ties keep the random input order. ``OUT/scored`` is a copy of the
dataset with these scores.

The second table bounds the accuracy of any sorter. Over captions of one image with the same region sets, ``agreement``
is how often two of them have the same order, and ``ceiling`` is an upper bound on the mean accuracy: if the orders of
an image have probabilities p, two captions agree with probability sum p^2, and the best guess is correct with
probability max p, at most the square root of that (for two sets, exactly (1 + sqrt(2 sum p^2 - 1)) / 2). The square
root is concave, so the root of the mean bounds the mean of the roots. Likewise for tau: (2 p - 1)^2 between two
captions for a pair of sets, |2 p - 1| for the best guess.
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
from sct.data.table import VALIDATION_SPLIT, Table
from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.regions.boxes import box_iou
from sct.sorting.baselines import DetectionProbability
from sct.sorting.batches import CaptionControls, extract_caption_controls
from sct.sorting.metrics import OrderScores, score_orders
from sct.sorting.serialization import load_sorter
from sct.training.run_dir import BEST
from sct.training.sorter.config import SorterRecipe
from sct.training.sorter.data import SorterDataLoader, score_sorter
from sct.training.sorter.trainer import SCORES, train_sorter

KINDS: Mapping[str, Mapping[str, str]] = {
    "detection_probability": {"kind": "detection_probability"},
    "class_order": {"kind": "class_order"},
    "svm_rank": {"kind": "svm_rank"},
    "sinkhorn": {"kind": "sinkhorn"},
    "sinkhorn, position": {"kind": "sinkhorn", "loss": "position"},
    "pointer": {"kind": "pointer"},
}
DETERMINISTIC = ("detection_probability", "class_order")
"""Kinds that do not depend on the seed."""
MIN_IOU = 0.5
"""Minimum IoU between a box and its detection."""
NUM_TIE_ORDERS = 100


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of captions on the order of the same region sets of an image."""

    captions: int
    """Number of captions with another one to compare with."""
    agreement: float
    tau: float
    ceiling: float
    tau_ceiling: float


def train_and_score(recipe: Path, changes: Mapping[str, str], out: Path, name: str, seed: int) -> dict[str, Any]:
    """Train a sorter, unless it exists, and return its scores."""
    folder = out / f"{name.replace(', ', '-')}-{seed}"
    if not (folder / SCORES).exists():
        settings = {"out": str(folder), "seed": str(seed), **KINDS[name], **changes}
        words = [f"{key}={value}" for key, value in settings.items()]
        if not train_sorter(SorterRecipe.load(recipe, words), resume=folder.exists()).finished:
            raise KeyboardInterrupt  # the training was interrupted
    found: dict[str, Any] = json.loads((folder / SCORES).read_text())
    return found


def write_scored(data: Path, detections: Path, folder: Path) -> Table:
    """Write a copy of a dataset with detector scores of its regions."""
    dataset = Dataset.open(data)
    scores = match_detections(dataset.table, detections)
    table = replace(dataset.table, columns={**dataset.table.columns, "region_score": scores.astype(np.float16)})
    write_dataset(folder, table, dataset.vocabulary, dataset.manifest, dataset.nouns)
    return table


def match_detections(table: Table, detections: Path) -> Float[np.ndarray, " regions"]:
    """Highest score of the detections on each region, 0 without one."""
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
            raise InputError(f"{detections} lacks image {name!r}: run the detector on all images of the dataset")
        if found["size"][row].tolist() != table.columns["image_size"][image].tolist():
            raise InputError(
                f"image {name!r} has another size in {detections} than in the dataset: use the same images"
            )
        detected = by_image[ends[row] : ends[row + 1]]
        regions = slice(first_region[image], first_region[image + 1])
        overlaps = box_iou(table.columns["region_box"][regions], found["box"][detected])
        scores[regions] = np.where(overlaps >= MIN_IOU, found["score"][detected], 0.0).max(axis=1, initial=0.0)
    return scores


def score_tie_orders(table: Table, controls: CaptionControls, vectors: WordVectors) -> str:
    """Scores of the detection-probability order over many random input orders, which ties keep."""
    data = SorterDataLoader(table, controls, vectors)
    batches = (data.batch(np.arange(len(data)), np.random.default_rng(seed)) for seed in range(1, 1 + NUM_TIE_ORDERS))
    scores = [score_orders(DetectionProbability().order(batch.inputs), batch.target) for batch in batches]
    return f"{_cell([100 * each.accuracy for each in scores], 1)} / {_cell([each.tau for each in scores], 3)}"


def describe_detections(table: Table, controls: CaptionControls) -> str:
    """Share of region sets with a detection, and number of controls with ties."""
    starts, scores = table.columns["region_offsets"].astype(np.int64), table.columns["region_score"]
    control_scores = [
        [float(scores[starts[image] + np.array(members)].max()) for members in control]
        for image, control in zip(controls.images.tolist(), controls.controls, strict=True)
    ]
    sets = [score for control in control_scores for score in control]
    share = 100 * float(np.mean(np.array(sets) > 0))
    num_ties = sum(len(set(control)) < len(control) for control in control_scores)
    return (
        f"{share:.1f} % of {len(sets):,} region sets have a detection; "
        f"{num_ties} of {len(control_scores)} controls have ties"
    )


class SharedControls:
    """Val captions whose image has another caption with the same region sets."""

    def __init__(self, table: Table) -> None:
        """Find these captions."""
        self._table = table
        every = extract_caption_controls(self._table, VALIDATION_SPLIT)
        rows: dict[tuple[int, tuple[tuple[int, ...], ...]], list[int]] = {}
        for row, (image, control) in enumerate(zip(every.images.tolist(), every.controls, strict=True)):
            rows.setdefault((image, tuple(sorted(control))), []).append(row)
        shared = [group for group in rows.values() if len(group) > 1]
        self._controls = every.select(np.array([row for group in shared for row in group]))
        self._groups = [[every.controls[row] for row in group] for group in shared]

    def agreement(self) -> dict[int, Agreement]:
        """Agreement by number of region sets; key 0: all captions."""
        sizes = sorted({len(group[0]) for group in self._groups})
        by_sets = {sets: _agreement([group for group in self._groups if len(group[0]) == sets]) for sets in sizes}
        total = sum(part.captions for part in by_sets.values())

        def weighted_mean(name: str) -> float:
            return float(sum(getattr(part, name) * part.captions for part in by_sets.values()) / total)

        return {0: Agreement(total, *map(weighted_mean, ("agreement", "tau", "ceiling", "tau_ceiling"))), **by_sets}

    def score(self, folder: Path) -> OrderScores:
        """Score a saved sorter on these captions."""
        sorter = load_sorter(folder)
        return score_sorter(sorter.sorter, SorterDataLoader(self._table, self._controls, sorter.vectors))


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
    position = {members: number for number, members in enumerate(other)}
    signs = [1 if position[first] < position[second] else -1 for first, second in combinations(one, 2)]
    return sum(signs) / len(signs)


def _cell(values: Sequence[float], digits: int) -> str:
    std = f" +- {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{std}"


def _human_grounded_cell(runs: Sequence[dict[str, Any]]) -> str:
    if runs[0]["val_human"] is None:
        return "-"
    accuracy = _cell([100 * run["val_human"]["accuracy"] for run in runs], 1)
    return f"{accuracy} / {_cell([run['val_human']['tau'] for run in runs], 3)}"


def print_table(rows: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """Print accuracy and tau, means and standard deviations over seeds, overall and by number of sets."""
    sizes = list(next(iter(rows.values()))[0]["val_by_sets"])
    counts = {sets: next(iter(rows.values()))[0]["val_by_sets"][sets]["controls"] for sets in sizes}
    print(
        "| sorter | seeds | accuracy | tau | human-grounded | "
        + " | ".join(f"{s} sets ({counts[s]:,})" for s in sizes)
        + " |"
    )
    print("| --- |" + " ---: |" * (4 + len(sizes)))
    for name, runs in rows.items():
        cells = [
            _cell([100 * run["val"]["accuracy"] for run in runs], 1),
            _cell([run["val"]["tau"] for run in runs], 3),
            _human_grounded_cell(runs),
            *(
                f"{mean(100 * run['val_by_sets'][s]['accuracy'] for run in runs):.1f} / "
                f"{mean(run['val_by_sets'][s]['tau'] for run in runs):.3f}"
                for s in sizes
            ),
        ]
        print(f"| {name} | {len(runs)} | " + " | ".join(cells) + " |")


def main() -> None:
    """Train missing sorters and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="overrides of the recipe")
    parser.add_argument("--data", help="dataset folder instead of the recipe's")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--kinds", nargs="+", choices=list(KINDS), help="default: all; detection_probability needs --detections"
    )
    parser.add_argument("--detections", type=Path, metavar="FILE.npz", help="detector scores")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = options.data or SorterRecipe.load(options.recipe).data
    changes = {"data": data, **dict(word.split("=", 1) for word in options.settings)}
    kinds = options.kinds or [kind for kind in KINDS if kind != "detection_probability" or options.detections]
    scored_changes, table = changes, Dataset.open(Path(data)).table
    if options.detections is not None:
        scored_changes = {**changes, "data": str(options.out / "scored")}
        table = write_scored(Path(data), options.detections, options.out / "scored")
    rows = {
        name: [
            train_and_score(options.recipe, changes, options.out, name, seed) for seed in range(1, 1 + options.seeds)
        ]
        if name not in DETERMINISTIC
        else [
            train_and_score(
                options.recipe, scored_changes if name == "detection_probability" else changes, options.out, name, 1
            )
        ]
        for name in kinds
    }
    shared = SharedControls(table)
    agreement = shared.agreement()
    if options.json:
        print(json.dumps({"sorters": rows, "human": {s: asdict(part) for s, part in agreement.items()}}))
        return
    print(f"{platform.machine()}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d}\n")
    print_table(rows)
    if options.detections is not None and "detection_probability" in rows:
        controls = extract_caption_controls(table, VALIDATION_SPLIT)
        print(f"\ndetections: {describe_detections(table, controls)}")
        vectors = load_sorter(options.out / "detection_probability-1" / BEST).vectors
        human_grounded = controls.select(np.flatnonzero(controls.human_grounded))
        parts = {"all": controls, "human-grounded": human_grounded} if len(human_grounded) else {"all": controls}
        for name, chosen in parts.items():
            tie_scores = score_tie_orders(table, chosen, vectors)
            print(f"detection_probability, mean over {NUM_TIE_ORDERS} random orders of ties, {name}: {tie_scores}")
    print("\n| human captions: sets | captions | agreement | ceiling | tau between two | tau ceiling |")
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
