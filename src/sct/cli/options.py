"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sct.cli.completion import complete_model

ImagesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="IMAGE...", help="Image files or folders; or shards, also globs and URLs: a bulk job (docs/bulk.md)."
    ),
]
MovedImagesOption = Annotated[
    list[Path] | None,
    typer.Option("--images", metavar="PATH", help="Folder or tar of the images, if they have moved; repeatable."),
]
ModelOption = Annotated[
    Path,
    typer.Option(
        help='Bundle folder, "default", or a bundle of the Hugging Face Hub: USER/NAME.', autocompletion=complete_model
    ),
]
AllowDownloadOption = Annotated[
    bool,
    typer.Option(
        "--allow-download", help="Download a bundle of the Hugging Face Hub, and the Hub models that a bundle names."
    ),
]
DeviceOption = Annotated[str, typer.Option(help="cpu or cuda.")]
PrecisionOption = Annotated[
    Literal["float32", "float16", "int8"], typer.Option(help="Precision of the decoder: float16 on GPU, int8 on CPU.")
]
RecursiveOption = Annotated[bool, typer.Option("--recursive", help="Also the images of subfolders.")]
ResultsOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.jsonl|DIR",
        help="Write the JSON lines to this file instead, as they are made; the same command resumes a stopped one. "
        "Bulk job: folder or URL of its outputs.",
    ),
]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per image and line.")]
