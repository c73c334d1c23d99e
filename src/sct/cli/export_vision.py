"""``python -m sct.regions.hub BACKBONE OUT.safetensors``: make a file that sees by models of the hub."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from sct.errors import InputError
from sct.vision.hub import HubConfig, save_hub_vision


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the file and say what it sees; what is wrong is one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m sct.regions.hub", description="Make a file that sees by models of the Hugging Face hub."
    )
    parser.add_argument("backbone", help="Name on the hub, or a local folder: where features come from.")
    parser.add_argument("out", type=Path, help="The file to write, such as hub.safetensors.")
    parser.add_argument("--revision", help="Branch, tag or commit of the backbone.")
    parser.add_argument("--detector", help="Name or folder: where proposals and names of regions come from.")
    parser.add_argument("--detector-revision", help="Branch, tag or commit of the detector.")
    parser.add_argument("--side", type=int, help="Pixels of the square that images are brought to.")
    given = parser.parse_args(arguments)
    try:
        eye = save_hub_vision(
            given.out,
            HubConfig(
                backbone=given.backbone,
                backbone_revision=given.revision,
                detector=given.detector,
                detector_revision=given.detector_revision,
                side=given.side,
            ),
        )
    except (InputError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    print(f"{given.out}: features of {eye.feature_size} numbers from images of {eye.side} x {eye.side}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
