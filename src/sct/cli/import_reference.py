"""``sct import-reference``: the authors' checkpoint to a bundle."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def import_reference_command(
    checkpoint: Annotated[Path, typer.Argument(metavar="FILE.pth", help="A checkpoint that the authors released.")],
    out: Annotated[Path, typer.Argument(help="Folder to write the bundle to; must not exist.")],
    vocabulary: Annotated[
        Path,
        typer.Option(
            help="The words it was trained with, in order: a vocabulary.json, or text with one word a line, where "
            "<unk> <pad> <bos> <eos> come first or are left out."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,
) -> None:
    """Make a bundle of the authors' checkpoint; it captions as their released code does.

    Nothing in the file is run: one that asks for more than tensors and plain values is refused.
    """
    from sct.models.import_reference import import_reference  # noqa: PLC0415

    bundle = import_reference(checkpoint, vocabulary, out)
    num_weights = sum(weight.numel() for weight in bundle.captioner.parameters())
    config = bundle.captioner.config
    if as_json:
        report = {"out": str(out), "weights": num_weights, **asdict(config), "provenance": dict(bundle.provenance)}
        print(json.dumps(report))
        return
    facts = [f"{name} {bundle.provenance[name]}" for name in ("epoch", "val_cider") if name in bundle.provenance]
    image = ", image in the top layer" if config.image_in_top_layer else ""
    print(f"{out}: {config.variant}{image}, {len(bundle.vocabulary):,} words, {num_weights:,} weights")
    if facts:
        print(f"  {', '.join(facts)}")
