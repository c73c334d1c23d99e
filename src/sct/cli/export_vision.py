"""``sct export-vision``: write a vision encoder file from models of the Hugging Face Hub."""

from pathlib import Path
from typing import Annotated

import typer


def export_vision_command(
    backbone: Annotated[str, typer.Argument(help="Backbone for region features: Hub name or local folder.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.safetensors", help="File to write.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of the backbone.")] = None,
    detector: Annotated[
        str | None, typer.Option(help="Object detector for proposals and class names: Hub name or local folder.")
    ] = None,
    detector_revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of the detector.")] = None,
    image_size: Annotated[
        int | None, typer.Option(min=1, help="Side in pixels of resized images; default: the backbone's own.")
    ] = None,
) -> None:
    """Write a vision encoder made of Hugging Face Hub models, for examples.vision=FILE of a recipe.

    The file holds model names pinned to their current commits, not weights.
    """
    from sct.vision.hub import HubConfig, save_hub_vision  # noqa: PLC0415

    encoder = save_hub_vision(
        out,
        HubConfig(
            backbone=backbone,
            backbone_revision=revision,
            detector=detector,
            detector_revision=detector_revision,
            image_size=image_size,
        ),
    )
    print(f"{out}: {encoder.feature_size}-d features of {encoder.image_size} x {encoder.image_size} images")
