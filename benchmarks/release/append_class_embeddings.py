r"""Append class-name embeddings to the region features of a trained vision encoder, without training it.

    python benchmarks/release/append_class_embeddings.py runs/vision/flickr8k/vision.safetensors build/flickr8k \
        build/class_embeddings.safetensors
    sct train recipes/default/cross_entropy.toml examples.vision=build/class_embeddings.safetensors \
        model.init_language_from= out=runs/default/class_embeddings

A vision run with ``append_class_embeddings = true`` writes such a file itself. Captioners need it from the
cross-entropy stage on.
"""

import argparse
from pathlib import Path

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.training.vision.class_embeddings import append_class_embeddings, require_nouns
from sct.vision.encoder import RegionVisionEncoder, load_vision


def convert(vision: Path, dataset: Path, out: Path) -> None:
    """Read an encoder, append embeddings of its class names, write it."""
    encoder = load_vision(vision)
    if not isinstance(encoder, RegionVisionEncoder):
        raise InputError(f'{vision} has no class head: use the output of a run with task = "vision"')
    extended = append_class_embeddings(encoder, require_nouns(Dataset.open(dataset), str(dataset)))
    out.parent.mkdir(parents=True, exist_ok=True)
    extended.save(out)
    vectors = extended.network.class_embeddings
    print(
        f"{out}: {extended.feature_size}-d region features, {vectors.shape[1]} of them class embeddings, known for "
        f"{int(vectors.any(1).sum())} of {len(vectors)} classes"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vision", type=Path)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    try:
        convert(given.vision, given.dataset, given.out)
    except (InputError, OSError) as error:
        raise SystemExit(str(error)) from None
