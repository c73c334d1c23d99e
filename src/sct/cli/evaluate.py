"""``sct evaluate``: caption a dataset, under control or not, and score the captions."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sct.cli.options import AllowDownloadOption
from sct.cli.printing import print_json, print_line, print_message
from sct.cli.progress import progress_bar
from sct.cli.score import MetricsOption, VectorsOption
from sct.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sct.evaluation.detected import CaptionedImages


def evaluate_command(
    bundle: Annotated[Path, typer.Argument(help='Bundle folder, or "default".')],
    data: Annotated[
        Path,
        typer.Argument(
            help="Folder written by sct prepare, a grounded JSONL file, or plain captions: COCO's captions_*.json, "
            "Karpathy's dataset_*.json, JSONL without mentions."
        ),
    ],
    control: Annotated[
        Literal["sequence", "set", "none", "detected"] | None,
        typer.Option(
            help="Region sets in order of mention, as a set that a sorter orders, the whole image, or regions that are "
            "detected as by sct caption, with all captions of an image as references; plain captions: detected."
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split of the dataset; default: val, or the only split of a JSONL file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the output; default: evaluation/BUNDLE-SPLIT-CONTROL.")
    ] = None,
    oracle: Annotated[
        int | None, typer.Option(min=1, help="Also generate N captions per image and score the best (Table 6).")
    ] = None,
    fidelity: Annotated[
        bool,
        typer.Option(
            "--fidelity",
            help="Instead: how well captions of human boxes keep to five kinds of control, with the search of sct "
            "caption. For a grounded JSONL file with images.",
        ),
    ] = False,
    metrics: MetricsOption = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Search and score as the authors' released code does.")
    ] = False,
    length_penalty: Annotated[
        float | None, typer.Option(min=0, help="Rank captions by log_prob / length ** PENALTY; default: the bundle's.")
    ] = None,
    constraints: Annotated[
        bool,
        typer.Option(
            "--constraints",
            help="Keep noun chunks whole and repeat no bigram, as sct caption does. Default: the paper's plain search.",
        ),
    ] = False,
    images: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Folder or tar of the images; default: images/ beside the file; repeatable."),
    ] = None,
    features: Annotated[Path | None, typer.Option(help="Region store that the dataset was prepared with.")] = None,
    sorter: Annotated[
        Path | None, typer.Option(help="Sorter folder written by sct train, instead of the bundle's sorter.")
    ] = None,
    vectors: VectorsOption = None,
    allow_download: AllowDownloadOption = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    batch_size: Annotated[int, typer.Option(min=1, help="Captions per batch.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Caption a split by the paper's protocol and score the captions.

    A sample is an image with a control; its references are all captions that share both. Predictions are written before
    they are scored. Of a grounded JSONL file only human-grounded captions are used if the bundle encodes images. With
    --control detected, and for plain captions, images are captioned as by sct caption and scored against all their
    captions: NW and IoU are missing, and human boxes, if any, only score the grounding.
    """
    from sct.captioner.captioner import load  # noqa: PLC0415
    from sct.cli.score_table import parse_metrics, print_missing, print_result  # noqa: PLC0415
    from sct.evaluation.config import EvaluationConfig  # noqa: PLC0415
    from sct.evaluation.detected import evaluate_detected  # noqa: PLC0415
    from sct.evaluation.evaluate import caption_and_score, check_sorter, load_data  # noqa: PLC0415
    from sct.evaluation.scoring import NounLexicon  # noqa: PLC0415
    from sct.sorting import load_sorter  # noqa: PLC0415
    from sct.storage.atomic import lock_folder  # noqa: PLC0415

    if fidelity:
        _check_alone(control, oracle)
        _evaluate_fidelity(bundle, data, images or (), vectors, device=device, as_json=as_json)
        return
    captioned = _read_detected(data, control, oracle, split, images or ())
    if captioned is not None:
        control = "detected"
        _check_unused(features, vectors, has_boxes=captioned.has_boxes)
    if sorter is not None and control != "set":
        raise InputError("got --sorter without --control set, which it is for: add --control set, or leave it out")
    config = EvaluationConfig(
        split=split,
        control=control or "sequence",
        metrics=parse_metrics(metrics),
        reference=reference,
        batch_size=batch_size,
        length_penalty=length_penalty,
        constraints=constraints,
    )
    captioner = load(bundle, device=device, allow_download=allow_download)
    chosen = captioner.sorter if sorter is None else load_sorter(sorter)
    check_sorter(config, chosen)
    folder = out or Path("evaluation") / f"{bundle.name}-{split or data.stem}-{control or 'oracle'}"
    nouns = NounLexicon.load(vectors)
    with lock_folder(folder):
        if captioned is not None:
            result = evaluate_detected(captioner, captioned, folder, config, nouns=nouns, progress=progress_bar)
            results = {"no control: regions are detected": result}
            used_split = captioned.split
        else:
            protocols = {} if control is None else {f"control: {control}": config}
            if oracle is not None:
                protocols[f"{oracle} captions per image"] = replace(config, num_captions=oracle)
            loaded = load_data(
                captioner,
                data,
                folder,
                features=features,
                nouns=nouns,
                with_proposals=control == "none",
                images=images or (),
                progress=progress_bar,
            )
            results = {
                title: caption_and_score(
                    captioner, loaded, folder, each, sorter=chosen, nouns=nouns, progress=progress_bar
                )
                for title, each in protocols.items()
            }
            used_split = split or loaded.default_split
    for title, result in results.items():
        print_missing(result)
        if (num_truncated := result.num_truncated_controls) and chosen is not None:
            reason = f"were cut to their first {chosen.max_sets} region sets, the most that the sorter orders"
            print_message(f"{num_truncated:,} of {len(result.predictions):,} controls {reason}")
        if not as_json:
            print_result(f"{bundle.name} on {data.name}, {used_split}, {title}", result)
    scores = [result.as_dict() for result in results.values()]
    # Scores under control take precedence over those of the oracle.
    if as_json:
        print_json({**scores[-1], **scores[0]})
    else:
        print_line(f"predictions and scores are in {folder}")


def _check_alone(control: str | None, oracle: int | None) -> None:
    if control is not None or oracle is not None:
        raise InputError("got --fidelity with --control or --oracle: give one of them")


def _read_detected(
    data: Path, control: str | None, oracle: int | None, split: str | None, images: "Sequence[Path]"
) -> "CaptionedImages | None":
    """Read captions of images whose regions are to be detected; None for evaluation under control."""
    from sct.evaluation.detected import read_captions, read_plain_captions  # noqa: PLC0415

    if control == "detected":
        if oracle is not None:
            raise InputError("got --oracle with --control detected, but it orders human boxes: give one of them")
        return read_captions(data, split, images)
    if oracle is not None or control not in (None, "none"):
        return None
    plain = read_plain_captions(data, split, images)
    if plain is None and control is None:
        raise InputError("got neither --control nor --oracle: give --control sequence, set, none or detected")
    return plain


def _check_unused(features: Path | None, vectors: Path | None, *, has_boxes: bool) -> None:
    """Refuse files that captions of detected regions do not use; word vectors are for the nouns of human boxes."""
    if features is not None:
        raise InputError("got --features, but regions are detected in images: leave it out")
    if vectors is not None and not has_boxes:
        raise InputError("got --vectors for plain captions, which need none: leave it out")


def _evaluate_fidelity(
    bundle: Path, data: Path, images: "Sequence[Path]", vectors: Path | None, *, device: str, as_json: bool
) -> None:
    """Print the fidelity of each kind of control."""
    from sct.captioner.bundle import load_bundle  # noqa: PLC0415
    from sct.captioner.captioner import load  # noqa: PLC0415
    from sct.cli.score_table import print_fidelity  # noqa: PLC0415
    from sct.evaluation.control_fidelity import evaluate_fidelity  # noqa: PLC0415
    from sct.evaluation.scoring import NounLexicon  # noqa: PLC0415

    if data.suffix != ".jsonl" or not data.is_file():
        raise InputError(f"got {data}, expected a grounded JSONL file: --fidelity is measured from its images")
    nouns = NounLexicon.load(vectors).table or load_bundle(bundle).nouns
    if nouns is None:
        raise InputError("got a bundle without a noun table, which --fidelity needs: give one with --vectors")
    captioner = load(bundle, device=device)
    with progress_bar("images") as report:
        results = evaluate_fidelity(captioner, data, nouns, images=images, progress=report)
    if as_json:
        print_json({"fidelity": [result.as_dict() for result in results]})
    else:
        print_fidelity(f"{bundle.name} on {data.name}: control fidelity", results)
