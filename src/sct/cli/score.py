"""``sct score``: metrics of a predictions file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sct.cli.bulk_options import BulkOptions, print_run, refuse_options, with_bulk_options
from sct.cli.progress import progress_bar
from sct.errors import InputError

MetricsOption = Annotated[
    str | None, typer.Option(help="Some of B1,B2,B3,B4,M,R,C,S,NW,IoU, or all; default: those of the paper's tables.")
]
VectorsOption = Annotated[
    Path | None, typer.Option(help="Word vectors instead of GloVe 6B 50-d, or a saved noun table (.safetensors).")
]


@with_bulk_options(
    "allow_absolute_paths",
    "attention",
    "batch_size",
    "features",
    "gpus_each",
    "image_root",
    "images_per_shard",
)
def score_command(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PREDICTIONS.jsonl...",
            help='One image and control per line: {"image": .., "control": .., "prediction": .., "references": [..]}. '
            "With --out: shards of such lines, also globs and URLs.",
        ),
    ],
    metrics: MetricsOption = None,
    per_caption: Annotated[Path | None, typer.Option(help="Write the scores of each caption to this file.")] = None,
    diversity: Annotated[
        bool, typer.Option("--diversity", help="Treat lines with the same image and control as several captions.")
    ] = False,
    reference: Annotated[bool, typer.Option("--reference", help="Score as the authors' released code does.")] = False,
    vectors: VectorsOption = None,
    spacy_model: Annotated[
        str | None, typer.Option(help="spaCy pipeline that finds nouns, a name or folder; default: en_core_web_sm.")
    ] = None,
    frequencies: Annotated[
        Path | None,
        typer.Option(help="Saved document frequencies of CIDEr-D (.safetensors); default: of the references."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Bulk job (docs/bulk.md): folder or URL of the scores of each shard."),
    ] = None,
    *,
    bulk: BulkOptions,
) -> None:
    """Score a predictions file, in the units of the paper's tables: times 100, except NW.

    Lines with several captions ("predictions": [..]) are also scored for diversity and for the best of them.
    """
    from sct.cli.score_table import parse_metrics, print_missing, print_result  # noqa: PLC0415
    from sct.evaluation.predictions import read_predictions  # noqa: PLC0415
    from sct.evaluation.scoring import NounLexicon, score_predictions  # noqa: PLC0415
    from sct.language.noun_chunks import select_spacy_model  # noqa: PLC0415
    from sct.metrics.document_frequencies import DocumentFrequencies  # noqa: PLC0415
    from sct.metrics.report import check_metrics  # noqa: PLC0415

    select_spacy_model(spacy_model)
    names = check_metrics(parse_metrics(metrics))
    if out is not None:
        from sct.bulk.location import Location  # noqa: PLC0415
        from sct.bulk.scores import ScoreConfig, score_shards  # noqa: PLC0415

        refuse_options({"--per-caption": per_caption is not None})
        config = ScoreConfig(
            metrics=names,
            reference=reference,
            diversity=diversity,
            vectors=vectors,
            spacy_model=spacy_model,
            frequencies=frequencies,
            row_format=bulk.row_format or "parquet",
        )
        run_config = bulk.run_config(bulk.compute("cpu"))
        with progress_bar("shards") as progress:
            scored = score_shards(config, bulk.list_shards(paths), Location.parse(out), run_config, progress=progress)
        for run in scored.runs:
            print_run(run, "lines")
        if scored.merged is None:
            raise InputError(f"{out} has shards to do, so there are no scores yet: run the command again")
        print_missing(scored.merged)
        print(json.dumps(scored.merged.as_dict())) if as_json else print_result(out, scored.merged)
        return
    if len(paths) != 1 or bulk.is_any_given:
        raise InputError(f"got {len(paths)} files, or options of a bulk job, without --out: add --out DIR")
    [predictions] = map(Path, paths)
    if per_caption is not None:
        _check_output(per_caption, predictions)
    lines, nouns = read_predictions(predictions), NounLexicon.load(vectors)
    table = None if frequencies is None else DocumentFrequencies.load(frequencies)
    with progress_bar("metrics") as progress:
        result = score_predictions(
            lines,
            names,
            nouns=nouns,
            frequencies=table,
            reference=reference,
            diversity=diversity,
            progress=progress,
        )
    if per_caption is not None:
        result.save_per_caption(per_caption)
    print_missing(result)
    if as_json:
        print(json.dumps(result.as_dict()))
    else:
        print_result(f"{predictions}", result)


def _check_output(out: Path, predictions: Path) -> None:
    """Raise before metrics run for minutes if ``out`` cannot be written or is the input."""
    if not out.parent.is_dir():
        raise InputError(f"--per-caption {out}: folder {out.parent} does not exist: create it first")
    if out.is_dir():
        raise InputError(f"--per-caption {out} is a folder, expected a file name")
    if out.exists() and predictions.exists() and out.samefile(predictions):
        raise InputError(f"--per-caption {out} would overwrite the predictions, expected another file")
