"""``sct export-onnx``: write a bundle's vision encoder and decoder step as ONNX models."""

from pathlib import Path
from typing import Annotated

import typer

from sct.cli.completion import complete_model
from sct.cli.printing import print_line


def export_onnx_command(
    bundle: Annotated[
        Path, typer.Argument(help='Bundle folder, or "default".', autocompletion=complete_model, metavar="BUNDLE")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
) -> None:
    """Write a bundle's vision encoder and one decoder step as ONNX models.

    docs/onnx.md describes their inputs and outputs, and onnx.json beside them has vocabulary and sizes.
    """
    from sct.captioner.export_onnx import export_onnx  # noqa: PLC0415

    for file in export_onnx(bundle, out):
        print_line(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
