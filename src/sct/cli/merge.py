"""``sct merge``: one dataset, or one manifest of region stores, of several."""

from pathlib import Path
from typing import Annotated

import typer

from sct.cli.printing import print_json, print_line


def merge_command(
    datasets: Annotated[
        list[Path], typer.Argument(metavar="DATASET...", help="Datasets, or region stores, written by sct prepare.")
    ],
    out: Annotated[Path, typer.Argument(help="Output folder, new or empty.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Merge datasets into one, to train on all of them: one vocabulary, all images.

    No image may be in two of them. Images stay where they are. Of region stores it writes a manifest, which is a region
    store for all commands; features stay where they are.
    """
    from dataclasses import asdict  # noqa: PLC0415

    from sct.data.merge import merge_datasets  # noqa: PLC0415
    from sct.regions.store_format import is_store  # noqa: PLC0415
    from sct.regions.store_manifest import write_manifest  # noqa: PLC0415

    if any(map(is_store, datasets)):
        stores = write_manifest(datasets, out)
        num_images = sum(store.images for store in stores.stores)
        if as_json:
            print_json({"out": str(out), "stores": len(stores.stores), "images": num_images})
        else:
            print_line(f"{out}: {len(stores.stores):,} region stores, {num_images:,} images")
        return
    manifest = merge_datasets(datasets, out)
    if as_json:
        print_json({"out": str(out), **asdict(manifest)})
    else:
        print_line(f"{out}: {manifest.source}, {manifest.num_images:,} images, {manifest.num_captions:,} captions")
