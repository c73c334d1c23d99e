"""Average the weights of several captioners into one bundle (model soup; rewarded soup, if their rewards differ).

    python benchmarks/release/average_bundles.py runs/a/best runs/b/best runs/c/best runs/mean [--shares 1 1 2]

All must have started ``from`` one bundle, or be bundles of one run: the mean of captioners with different initial
weights is not a captioner. Vocabulary, nouns, sorter and vision encoder are those of the first bundle; its length
penalty was tuned for other weights and is dropped.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from sct.captioner.bundle import Bundle, load_bundle, save_bundle
from sct.errors import InputError


def average(sources: Sequence[Path], folder: Path, shares: Sequence[float] | None = None) -> None:
    """Write the mean of one or more bundles, weighted by ``shares``, to a new folder."""
    shares = [1.0] * len(sources) if shares is None else shares
    if len(shares) != len(sources) or min(shares) < 0 or not sum(shares):
        raise InputError(f"got shares {list(shares)} of {len(sources)} bundles, expected a number from 0 on for each")
    first = load_bundle(sources[0])
    sums = {name: shares[0] * weight.double() for name, weight in first.model.state_dict().items()}
    for source, share in zip(sources[1:], shares[1:], strict=True):
        bundle = load_bundle(source)
        _check_compatible(first, bundle)
        for name, weight in bundle.model.state_dict().items():
            sums[name] += share * weight.double()
    weights: dict[str, Tensor] = {name: (total / sum(shares)).to(torch.float32) for name, total in sums.items()}
    first.model.load_state_dict(weights)
    save_bundle(
        folder,
        first.model,
        first.vocabulary,
        provenance={
            **_shared_provenance(first),
            "mean_of": ", ".join(
                f"{share:g} {'/'.join(source.parts[-2:])}" for source, share in zip(sources, shares, strict=True)
            ),
        },
        encoder=first.encoder,
        nouns=first.nouns,
        sorter=first.sorter,
        vision=first.vision,
    )


def _shared_provenance(first: Bundle) -> dict[str, str | int | float | bool]:
    """Provenance that also holds for the mean: data and stage, but neither steps nor scores."""
    return {key: value for key, value in first.provenance.items() if key in ("data", "stage")}


def _check_compatible(first: Bundle, other: Bundle) -> None:
    if other.model.config != first.model.config:
        raise InputError(
            f"{other.folder} has config {other.model.config}, but {first.folder} has {first.model.config}: average "
            "bundles of one config"
        )
    if other.vocabulary.words != first.vocabulary.words:
        raise InputError(
            f"{other.folder} and {first.folder} have different vocabularies: average bundles of one vocabulary"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs="+")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shares", type=float, nargs="+", help="relative share of each bundle; default: the same")
    given = parser.parse_args()
    try:
        average(given.sources, given.folder, given.shares)
    except InputError as error:
        raise SystemExit(str(error)) from None
    print(f"{given.folder}: mean of {len(given.sources)} captioners")
