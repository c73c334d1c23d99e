r"""Write a trained bundle as the shipped one: int8 weights, with its scores.

    python benchmarks/release/default_bundle.py runs/default/sorter/best src/sct/bundles/default EVALUATION... \
        --length-penalty 1 --fits fits.toml

EVALUATION is an output folder of ``sct evaluate``, one for each data set and control. The length penalty is the one
tuned on validation, by default the bundle's own; ``fits.toml`` is a calibration (``benchmarks/quality/fits.py``). The
model card is written by hand and kept.
"""

import argparse
import json
import shutil
import tempfile
import tomllib
from pathlib import Path

from sct.captioner.bundle import add_sorter, load_bundle, save_bundle
from sct.captioner.fits import FitCalibration

MAX_MEGABYTES = 80
DATA = "coco-layout with images, flickr8k-entities"


def write_default_bundle(
    source: Path,
    folder: Path,
    evaluations: list[Path],
    length_penalty: float | None = None,
    fits: Path | None = None,
) -> None:
    """Write the files of the bundle, replacing those of an earlier one."""
    bundle = load_bundle(source)
    if bundle.sorter is None:
        raise SystemExit(f"{source} has no sorter: add one with sct train sorter/flickr8k_pointer from=BUNDLE")
    penalty = bundle.length_penalty if length_penalty is None else length_penalty
    scores = [json.loads((evaluation / "scores.json").read_text("utf-8")) for evaluation in evaluations]
    for evaluation, score in zip(evaluations, scores, strict=True):
        if score["config"]["length_penalty"] != penalty:
            raise SystemExit(
                f"{evaluation} used length_penalty {score['config']['length_penalty']}, the bundle has {penalty}: "
                "evaluate with the same"
            )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        captioner, quantized = Path(temporary) / "captioner", Path(temporary) / "quantized"
        save_bundle(
            captioner,
            bundle.model,
            bundle.vocabulary,
            provenance={
                **{name: value for name, value in bundle.provenance.items() if not name.startswith("val_")},
                "data": DATA,
            },
            precision="int8",
            nouns=bundle.nouns,
            vision=bundle.vision,
            length_penalty=penalty,
            fits=bundle.fits if fits is None else FitCalibration.load(fits),
        )
        sorter_provenance = tomllib.loads((source / "sorter.toml").read_text("utf-8"))["provenance"]
        add_sorter(captioner, bundle.sorter, quantized, provenance={**sorter_provenance, "data": DATA})
        for file in sorted(quantized.iterdir()):
            shutil.copyfile(file, folder / file.name)
    by_name = {evaluation.name: score for evaluation, score in zip(evaluations, scores, strict=True)}
    (folder / "scores.json").write_text(json.dumps(by_name, indent=1) + "\n", "utf-8")
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    print(f"{folder}: {size:.1f} MB (at most {MAX_MEGABYTES})")
    if size > MAX_MEGABYTES:
        raise SystemExit(
            f"got {size:.1f} MB, expected at most {MAX_MEGABYTES}: use a smaller captioner or vision encoder"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("evaluations", type=Path, nargs="*")
    parser.add_argument(
        "--length-penalty", type=float, help="captions are ranked by log_prob / length ** length_penalty"
    )
    parser.add_argument("--fits", type=Path, help="calibration of fits; default: the bundle's")
    given = parser.parse_args()
    write_default_bundle(given.source, given.folder, given.evaluations, given.length_penalty, given.fits)
