"""``sct evaluate``: captions of a dataset under control, and what the metrics say of them."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sct.cli.progress import progress_bar
from sct.errors import InputError

if TYPE_CHECKING:
    from sct.captioner.captioner import Captioner
    from sct.data.dataset import Dataset
    from sct.data.features import Features
    from sct.data.table import Table
    from sct.evaluation.scoring import EvaluationResult, NounLexicon


def evaluate_command(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle, or the word default.")],
    data: Annotated[
        Path, typer.Argument(help="A folder made by sct prepare, or a grounded JSONL file with images/ beside it.")
    ],
    control: Annotated[
        Literal["sequence", "set", "none"] | None,
        typer.Option(help="Region sets in order of mention, as a set that a sorter orders, or the image as a whole."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Part of the dataset; val if not given, or the only one of a JSONL file.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for predictions and scores; evaluation/BUNDLE-SPLIT-CONTROL if not given."),
    ] = None,
    oracle: Annotated[
        int | None, typer.Option(min=1, help="Also say so many captions of each image and judge the best (Table 7).")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Some of B1,B2,B3,B4,M,R,C,S,NW,IoU, or all; those of the paper's tables if not given."),
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Search and score as the authors' released code does.")
    ] = False,
    length_penalty: Annotated[
        float | None,
        typer.Option(min=0, help="Rank captions by score / length ** this; the bundle's own if not given."),
    ] = None,
    features: Annotated[Path | None, typer.Option(help="Region store that the dataset was prepared with.")] = None,
    sorter: Annotated[
        Path | None, typer.Option(help="Folder of a sorter, made by sct train, instead of the bundle's own.")
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Word vectors instead of GloVe 6B 50-d, or a saved noun table (.safetensors).")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    batch_size: Annotated[int, typer.Option(min=1, help="Controls that are captioned at once.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Caption a split by the paper's protocol and score the captions.

    One sample is an image with a control; all captions that share both are its references. Predictions are written
    before they are scored. Of a grounded JSONL file, a bundle that sees looks at the images, at the boxes that people
    drew, and is judged by the captions that people grounded.
    """
    from sct.captioner.captioner import load  # noqa: PLC0415
    from sct.cli.score_table import chosen_metrics, print_reasons, print_table  # noqa: PLC0415
    from sct.evaluation.evaluate import NO_SORTER, EvaluationSettings, Evaluator, score_and_save  # noqa: PLC0415
    from sct.evaluation.predict import DatasetSorter, Progress  # noqa: PLC0415
    from sct.evaluation.predictions import Prediction  # noqa: PLC0415
    from sct.evaluation.scoring import EvaluationResult, NounLexicon  # noqa: PLC0415
    from sct.sorting import load_sorter  # noqa: PLC0415

    if control is None and oracle is None:
        raise InputError("neither --control nor --oracle was given: say --control sequence, set or none")
    if sorter is not None and control != "set":
        raise InputError("--sorter puts sets in order, and no set is evaluated: say --control set, or leave it out")
    settings = EvaluationSettings(
        control=control or "sequence",
        metrics=chosen_metrics(metrics),
        reference=reference,
        batch_size=batch_size,
        length_penalty=length_penalty,
    )
    captioner, nouns = load(bundle, device=device), NounLexicon.load(vectors)
    chosen = captioner.sorter if sorter is None else load_sorter(sorter)
    if control == "set" and chosen is None:
        raise InputError(NO_SORTER)  # before images are looked at for minutes
    folder = out or Path("evaluation") / f"{bundle.name}-{split or data.stem}-{control or 'oracle'}"
    material = _material(captioner, data, folder, features, nouns, control)
    dataset = material.dataset
    of_split = replace(settings, split=split or ("val" if data.is_dir() else dataset.table.splits[0]))
    settings = of_split.resolved(captioner)
    of_sets = None if chosen is None else DatasetSorter(chosen, material.seen, material.features)
    evaluator = Evaluator(captioner, dataset, material.features, settings, of_sets)

    def run(caption: Callable[[Progress], list[Prediction]], name: str) -> EvaluationResult:
        with progress_bar("captions") as progress:
            lines = caption(progress)
        with progress_bar("metrics") as progress:
            return score_and_save(lines, folder, settings, dataset=dataset, name=name, nouns=nouns, progress=progress)

    judgements: dict[str, EvaluationResult] = {}
    if control is not None:
        judgements[f"control: {control}"] = run(evaluator.caption, "")
    if oracle is not None:
        judgements[f"{oracle} captions of each image"] = run(partial(evaluator.caption_n_times, oracle), "oracle_")
    for judgement in judgements.values():
        print_reasons(judgement)
    if as_json:
        print(json.dumps(_as_object(judgements.values())))
        return
    for title, judgement in judgements.items():
        print_table(f"{bundle.name} on {data.name}, {settings.split}, {title}", judgement)
    print(f"predictions and scores are in {folder}")


@dataclass(frozen=True, slots=True, eq=False)
class _Material:
    """What is evaluated on."""

    dataset: "Dataset"
    seen: "Table"
    """The dataset as a sorter may know it."""
    features: "Features"


def _material(
    captioner: "Captioner", data: Path, folder: Path, features: Path | None, nouns: "NounLexicon", control: str | None
) -> _Material:
    """Look at the images of a grounded JSONL file, if the bundle sees and no features were named; else read them."""
    if data.is_file() and data.suffix == ".jsonl" and captioner.vision is not None and features is None:
        from sct.evaluation.from_images import look_at_file  # noqa: PLC0415

        with progress_bar("images") as progress:
            found = look_at_file(
                captioner.vision, data, nouns=nouns, with_proposals=control == "none", progress=progress
            )
        return _Material(found.dataset, found.seen, found.features)
    from sct.data.features import features_for  # noqa: PLC0415
    from sct.regions.store import RegionStore  # noqa: PLC0415

    dataset = _open(data, folder)
    store = None if features is None else RegionStore.open(features)
    is_reference = captioner.config.mode == "reference"
    of_regions = features_for(dataset.table, store, captioner.encoder, skip_zeros=is_reference)
    return _Material(dataset, dataset.table, of_regions)


def _open(data: Path, folder: Path) -> "Dataset":
    """Open a dataset; a grounded JSONL file is prepared first, into the folder of the evaluation."""
    from sct.data.dataset import Dataset  # noqa: PLC0415

    if data.is_file() and data.suffix == ".jsonl":
        from sct.data.prepare import PrepareConfig, prepare  # noqa: PLC0415

        with progress_bar("images") as progress:
            prepare(data, folder / "dataset", PrepareConfig(overwrite=True), progress)
        return Dataset.open(folder / "dataset")
    return Dataset.open(data)


def _as_object(judgements: Iterable["EvaluationResult"]) -> dict[str, Any]:
    """All figures in one object; those of the first captions of the oracle yield to those of the control."""
    content: dict[str, Any] = {}
    for judgement in judgements:
        content = {**judgement.as_dict(), **content}
    return content
