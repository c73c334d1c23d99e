"""Let a network that sees also tell captioners the words for what a region may be called, without training it.

    python benchmarks/release/append_class_embeddings.py runs/sight_flickr8k/vision.safetensors build/flickr8k build/told.safetensors
    sct train recipes/default_words.toml examples.vision=build/told.safetensors model.init_language_from= out=runs/told_words

A run with ``class_words = true`` writes such a file by itself; captioners are trained with it from the words stage on.
"""

import argparse
from pathlib import Path

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.training.vision.class_embeddings import nouns_of, with_class_words
from sct.vision.encoder import RegionVisionEncoder, load_vision


def add_words(vision: Path, dataset: Path, out: Path) -> None:
    """Read, add and write."""
    eye = load_vision(vision)
    if not isinstance(eye, RegionVisionEncoder):
        raise InputError(f'{vision} names no regions itself: expected what a run with task = "sight" wrote')
    told = with_class_words(eye, nouns_of(Dataset.open(dataset), str(dataset)))
    out.parent.mkdir(parents=True, exist_ok=True)
    told.save(out)
    vectors = told.network.class_embeddings
    print(
        f"{out}: {told.feature_size} numbers a region, {vectors.shape[1]} of them by the vectors of "
        f"{int(vectors.any(1).sum())} of {len(vectors)} names"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vision", type=Path)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    try:
        add_words(given.vision, given.dataset, given.out)
    except (InputError, OSError) as error:
        raise SystemExit(str(error)) from None
