"""``sct import-reference``: convert a checkpoint of the authors to a bundle."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def import_reference_command(
    checkpoint: Annotated[Path, typer.Argument(metavar="FILE.pth", help="Checkpoint that the authors released.")],
    out: Annotated[Path, typer.Argument(help="Bundle folder to write; must not exist.")],
    vocabulary: Annotated[
        Path,
        typer.Option(
            help="Vocabulary of the checkpoint, in order: vocabulary.json, or text with one word per line; "
            "<unk> <pad> <bos> <eos> come first or are left out."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Convert a checkpoint of the authors to a bundle that captions as their released code does.

    Nothing in the file is executed: a pickle with anything but tensors and plain values is refused.
    """
    from sct.captioner.import_reference import import_reference  # noqa: PLC0415

    bundle = import_reference(checkpoint, vocabulary, out)
    num_weights = sum(weight.numel() for weight in bundle.model.parameters())
    config = bundle.model.config
    if as_json:
        report = {"out": str(out), "weights": num_weights, **asdict(config), "provenance": dict(bundle.provenance)}
        print(json.dumps(report))
        return
    image = ", image in the language LSTM" if config.image_in_language_lstm else ""
    print(f"{out}: {config.variant}{image}, {len(bundle.vocabulary):,} words, {num_weights:,} weights")
    facts = [f"{name} {bundle.provenance[name]}" for name in ("epoch", "val_cider") if name in bundle.provenance]
    if facts:
        print(f"  {', '.join(facts)}")
