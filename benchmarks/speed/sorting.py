"""Time to sort 1,000 controls of 10 region sets, from tables of regions to permutations with probabilities.

    python benchmarks/speed/sorting.py [--threads 2] [--runs 15] [--json]
    python benchmarks/speed/sorting.py --agreement build/coco_layout [--threads 2] [--json]

Four cases of the paper's network, and the pointer network. Without features the network sees class and geometry. With
2,048 features, the controls are either of 200 images with 10 regions and five captions each, as in evaluation, where
each region is encoded once; or share no region, so that 10,000 regions take 24 billion operations, most of which
``precision="int8"`` does in int8. Each figure is the best of the runs.

``--agreement`` compares int8 with float32 permutations. A network is trained on some controls of a prepared dataset and
sorts its val split. Its 2,048 features are those of ``LayoutEncoder``, and long-tailed ones: negative values become 0,
others are cubed, so that few are large, like detector features; these are harder to quantize.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import torch

from sct.data.dataset import Dataset
from sct.data.features import Features, ImageFeatures, LayoutFeatures
from sct.data.table import TRAINING_SPLIT, VALIDATION_SPLIT
from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.sorting.batches import ControlTable, extract_caption_controls
from sct.sorting.interface import Sorter, SorterInputs
from sct.sorting.pointer_network import PointerConfig, PointerNetwork, PointerSorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter, reconstruction_loss
from sct.training.sorter.data import SorterDataLoader, score_sorter
from sct.vision.layout import LayoutEncoder

CONTROLS, SETS, CLASSES, WORDS, FEATURES, IMAGES = 1000, 10, 80, 300, 2048, 200
NUM_TRAINING, EPOCHS = 20_000, 3


def random_inputs(num_regions: int, feature_size: int | None) -> SorterInputs:
    """Controls of ten sets with one region each, in random order; images repeat if there are few regions."""
    random = np.random.default_rng(0)
    images = num_regions // SETS
    members = np.concatenate([random.permutation(SETS) + SETS * (control % images) for control in range(CONTROLS)])
    table = ControlTable(
        class_names=tuple(f"class {number}" for number in range(CLASSES)),
        class_vectors=random.normal(size=(CLASSES, WORDS)).astype(np.float32),
        region_class=random.integers(CLASSES, size=num_regions),
        positions=random.random((num_regions, 4), dtype=np.float32),
        features=None if feature_size is None else random.random((num_regions, feature_size), dtype=np.float32),
        set_offsets=np.arange(CONTROLS + 1) * SETS,
        member_offsets=np.arange(CONTROLS * SETS + 1),
        members=members,
    )
    return table.batch(np.arange(CONTROLS)).inputs


def milliseconds(run: Callable[[], object], runs: int) -> float:
    """Best of several runs after a warm-up run."""
    run()
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return 1000 * best


def make_cases() -> Mapping[str, tuple[Sorter, SorterInputs]]:
    """Sorters with random weights, and their inputs."""
    torch.manual_seed(0)
    distinct = CONTROLS * SETS
    layout_only = SinkhornSorter(SinkhornNetwork(SinkhornConfig(visual_size=None)).eval())
    visual = SinkhornSorter(SinkhornNetwork(SinkhornConfig(visual_size=FEATURES)).eval())
    int8 = SinkhornSorter(visual.network, precision="int8")
    pointer = PointerSorter(PointerNetwork(PointerConfig(visual_size=None)).eval(), beam_size=1)
    return {
        "Sinkhorn, class and geometry": (layout_only, random_inputs(distinct, None)),
        "Sinkhorn, 2,048 features, 200 images": (visual, random_inputs(IMAGES * SETS, FEATURES)),
        "Sinkhorn, 2,048 features, 10,000 regions": (visual, random_inputs(distinct, FEATURES)),
        "the same, int8": (int8, random_inputs(distinct, FEATURES)),
        "pointer, greedy, class and geometry": (pointer, random_inputs(distinct, None)),
    }


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of int8 with float32 permutations."""

    controls: int
    same: float
    """Share of controls with the same permutation."""
    accuracy: float
    """Share of permutations that are entirely correct, in float32."""
    accuracy_int8: float


class LongTailed:
    """Non-negative features of which few are large."""

    def __init__(self, features: Features) -> None:
        """Wrap other features."""
        self._features = features

    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        """Return the transformed features of images."""
        found = self._features(images)
        return ImageFeatures(found.regions.relu() ** 3, found.first_row, found.image)


def measure_agreement(data: Path) -> dict[str, Agreement]:
    """Train a network on each kind of features and compare its permutations in both precisions."""
    dataset = Dataset.open(data)
    if dataset.nouns is None:
        raise InputError(f"{data} has no noun vectors: prepare it again")
    nouns = dataset.nouns.with_vectors()
    vectors = WordVectors(nouns.vectors_name, {noun: row for row, noun in enumerate(nouns.nouns)}, nouns.units)
    table = dataset.table
    layout = LayoutFeatures(LayoutEncoder(table.classes, FEATURES), table)
    train, val = extract_caption_controls(table, TRAINING_SPLIT), extract_caption_controls(table, VALIDATION_SPLIT)
    some = train.select(np.random.default_rng(0).permutation(len(train))[:NUM_TRAINING])
    found = {}
    kinds: dict[str, Features] = {"class and box": layout, "the same, long-tailed": LongTailed(layout)}
    for name, features in kinds.items():
        network = train_network(SorterDataLoader(table, some, vectors, features), vectors.matrix.shape[1])
        found[name] = compare(network, SorterDataLoader(table, val, vectors, features))
    return found


def train_network(data: SorterDataLoader, word_size: int) -> SinkhornNetwork:
    """Train a network for a few epochs, like ``sct train``."""
    torch.manual_seed(0)
    network, random = (
        SinkhornNetwork(SinkhornConfig(word_size=word_size, visual_size=FEATURES)),
        np.random.default_rng(0),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-4)
    for _ in range(EPOCHS):
        for batch in data.batches(100, random, random.permutation(len(data))):
            loss = reconstruction_loss(network, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval()


def compare(network: SinkhornNetwork, data: SorterDataLoader) -> Agreement:
    """Compare permutations in float32 and int8."""
    sorters = SinkhornSorter(network), SinkhornSorter(network, precision="int8")
    same = [
        (sorters[0].order(batch.inputs).order == sorters[1].order(batch.inputs).order).all(dim=1)
        for batch in data.batches(CONTROLS, np.random.default_rng(0))
    ]
    accuracies = [score_sorter(sorter, data).accuracy for sorter in sorters]
    return Agreement(len(data), float(torch.cat(same).double().mean()), *accuracies)


def print_agreement(found: Mapping[str, Agreement], *, as_json: bool) -> None:
    """Print one line per kind of features."""
    if as_json:
        print(json.dumps({name: asdict(each) for name, each in found.items()}))
        return
    print(f"{'features':<24}{'val controls':>14}{'same order %':>14}{'correct %':>11}{'correct in int8 %':>19}")
    for name, each in found.items():
        shares = f"{100 * each.same:>14.2f}{100 * each.accuracy:>11.1f}{100 * each.accuracy_int8:>19.1f}"
        print(f"{name:<24}{each.controls:>14,}{shares}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--agreement", type=Path, metavar="DATA", help="compare precisions on a dataset instead of timing"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.agreement is not None:
        print_agreement(measure_agreement(options.agreement), as_json=options.json)
        return
    rows = {}
    for name, (sorter, inputs) in make_cases().items():
        rows[name] = milliseconds(partial(sorter.order, inputs), options.runs)
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{options.threads} threads, {platform.machine()}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d}")
    print(f"{f'{CONTROLS:,} controls of {SETS} sets':<46}{'ms':>8}")
    for name, elapsed in rows.items():
        print(f"{name:<46}{elapsed:>8.1f}")


if __name__ == "__main__":
    main()
