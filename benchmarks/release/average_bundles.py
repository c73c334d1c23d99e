"""The mean of the weights of captioners that came from the same start, as a bundle: a soup of them.

    python benchmarks/release/average_bundles.py runs/a/best runs/b/best runs/c/best runs/mean

Vocabulary, nouns, sorter and what sees are those of the first; the length power was chosen for other weights and is
left out. Captioners that learned from different first weights
have no mean that speaks: all must have begun ``from`` one bundle, or be bundles of one run.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from sct.captioner.bundle import Bundle, load_bundle, save_bundle
from sct.errors import InputError


def average(sources: Sequence[Path], folder: Path) -> None:
    """Write the mean of the bundles, of which there is at least one, into a folder that must not exist yet."""
    first = load_bundle(sources[0])
    sums = {name: weight.double() for name, weight in first.captioner.state_dict().items()}
    for source in sources[1:]:
        bundle = load_bundle(source)
        _check_alike(first, bundle)
        for name, weight in bundle.captioner.state_dict().items():
            sums[name] += weight
    weights: dict[str, Tensor] = {name: (total / len(sources)).to(torch.float32) for name, total in sums.items()}
    first.captioner.load_state_dict(weights)
    save_bundle(
        folder,
        first.captioner,
        first.vocabulary,
        provenance={**_origin(first), "mean_of": ", ".join("/".join(source.parts[-2:]) for source in sources)},
        encoder=first.encoder,
        nouns=first.nouns,
        sorter=first.sorter,
        vision=first.vision,
    )


def _origin(first: Bundle) -> dict[str, str | int | float | bool]:
    """What the first learned, without its steps and scores: those of the mean are others."""
    return {key: value for key, value in first.provenance.items() if key in ("data", "stage")}


def _check_alike(first: Bundle, other: Bundle) -> None:
    if other.captioner.config != first.captioner.config:
        raise InputError(
            f"{other.folder} holds a captioner of {other.captioner.config}, and {first.folder} of "
            f"{first.captioner.config}: expected the same"
        )
    if other.vocabulary.words != first.vocabulary.words:
        raise InputError(f"{other.folder} and {first.folder} do not know the same words: expected one vocabulary")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs="+")
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    try:
        average(given.sources, given.folder)
    except InputError as error:
        raise SystemExit(str(error)) from None
    print(f"{given.folder}: the mean of {len(given.sources)} captioners")
