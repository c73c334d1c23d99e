"""Let a network that sees also tell captioners the words for what a region may be called, without training it.

    python benchmarks/with_class_words.py runs/sight_flickr8k/vision.safetensors build/flickr8k build/told.safetensors
    sct train recipes/default_words.toml examples.vision=build/told.safetensors out=runs/told_words

A run with ``class_words = true`` writes such a file by itself; captioners are trained with it from the words stage on.
"""

import argparse
from pathlib import Path

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.regions.sight import Eye, load_vision
from sct.training.sight_words import nouns_of, with_class_words


def main() -> None:
    """Read, add and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vision", type=Path)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    eye = load_vision(options.vision)
    if not isinstance(eye, Eye):
        raise InputError(f'{options.vision} names no regions itself: wanted what a run with task = "sight" wrote')
    told = with_class_words(eye, nouns_of(Dataset.open(options.dataset), str(options.dataset)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    told.save(options.out)
    vectors = told.network.name_vectors
    print(
        f"{options.out}: {told.feature_size} numbers a region, {vectors.shape[1]} of them by the vectors of "
        f"{int(vectors.any(1).sum())} of {len(vectors)} names"
    )


if __name__ == "__main__":
    main()
