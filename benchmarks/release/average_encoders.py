"""Average the weights of several vision encoders into one (model soup).

    python benchmarks/release/average_encoders.py runs/a/vision.safetensors runs/b/vision.safetensors mean.safetensors

All must have started ``from`` one encoder: the mean of encoders with different initial weights is not an encoder. They
may differ in their image size; that of the last one is the mean's.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sct.errors import InputError
from sct.vision.detect import check_region_encoder
from sct.vision.encoder import RegionVisionEncoder, load_vision


def average(sources: Sequence[Path], out: Path) -> None:
    """Write the mean of encoders with the same names and sizes."""
    encoders = [check_region_encoder(load_vision(source)) for source in sources]
    last = encoders[-1]
    for source, encoder in zip(sources, encoders, strict=True):
        if _layout(encoder) != _layout(last):
            raise InputError(
                f"{source} and {sources[-1]} differ in sizes or names: average encoders that started from one"
            )
    weights = [encoder.network.state_dict() for encoder in encoders]
    last.network.load_state_dict({name: sum(each[name] for each in weights) / len(weights) for name in weights[0]})
    last.save(out)


def _layout(encoder: RegionVisionEncoder) -> tuple[object, ...]:
    config = replace(encoder.network.config, image_size=0)
    return config, encoder.class_names, encoder.words, encoder.attributes


def main() -> None:
    """Average encoders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    average(options.sources, options.out)
    print(f"{options.out}: mean of {len(options.sources)} encoders")


if __name__ == "__main__":
    main()
