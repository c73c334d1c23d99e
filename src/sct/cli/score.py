"""``sct score``: figures of any system's captions, from a file alone."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sct.cli.progress import progress_bar
from sct.errors import InputError


def score_command(
    predictions: Annotated[
        Path,
        typer.Argument(
            metavar="PREDICTIONS.jsonl",
            help='One image and control a line: {"image": .., "control": .., "prediction": .., "references": [..]}.',
        ),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(help="Some of B1,B2,B3,B4,M,R,C,S,NW,IoU, or all; those of the paper's tables if not given."),
    ] = None,
    per_caption: Annotated[Path | None, typer.Option(help="File to write with the figures of each caption.")] = None,
    diversity: Annotated[
        bool, typer.Option("--diversity", help="Lines of one image and control are several captions of it.")
    ] = False,
    reference: Annotated[bool, typer.Option("--reference", help="Score as the authors' released code does.")] = False,
    vectors: Annotated[
        Path | None, typer.Option(help="Word vectors instead of GloVe 6B 50-d, or a saved noun table (.safetensors).")
    ] = None,
    frequencies: Annotated[
        Path | None,
        typer.Option(help="Saved document frequencies for CIDEr (.safetensors); the groups' own if not given."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the paper's metrics for predictions, in the units of its tables: NW as it is, all else times 100.

    Lines with "predictions": [..] are also judged by how their captions differ and by the best of them.
    """
    from sct.cli.score_table import chosen_metrics, print_reasons, print_table  # noqa: PLC0415
    from sct.evaluation.predictions import read_predictions  # noqa: PLC0415
    from sct.evaluation.scoring import NounLexicon, judge  # noqa: PLC0415
    from sct.metrics.document_frequencies import DocumentFrequencies  # noqa: PLC0415
    from sct.metrics.report import checked_metrics  # noqa: PLC0415

    names = checked_metrics(chosen_metrics(metrics))
    if per_caption is not None:
        _refuse_bad_place(per_caption, predictions)
    lines, nouns = read_predictions(predictions), NounLexicon.load(vectors)
    counted = None if frequencies is None else DocumentFrequencies.load(frequencies)
    with progress_bar("metrics") as progress:
        judgement = judge(
            lines,
            names,
            nouns=nouns,
            frequencies=counted,
            reference=reference,
            diversity=diversity,
            progress=progress,
        )
    if per_caption is not None:
        judgement.save_per_caption(per_caption)
    print_reasons(judgement)
    if as_json:
        print(json.dumps(judgement.as_dict()))
    else:
        print_table(f"{predictions}", judgement)


def _refuse_bad_place(out: Path, predictions: Path) -> None:
    """Refuse before metrics run for minutes what could not be written after them, or would overwrite what they read."""
    if not out.parent.is_dir():
        raise InputError(f"--per-caption {out}: there is no folder {out.parent}; make it first")
    if out.is_dir():
        raise InputError(f"--per-caption {out} is a folder: expected the name of a file")
    if out.exists() and predictions.exists() and out.samefile(predictions):
        raise InputError(f"--per-caption {out} would overwrite the predictions: expected another file")
