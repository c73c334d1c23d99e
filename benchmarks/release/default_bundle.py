"""Pack a trained bundle as the one that ships: weights in 8 bits, what it scored beside them.

    python benchmarks/release/default_bundle.py runs/default_sorter/best src/sct/bundles/default EVALUATION... --length-power 1

The folders after the two bundles are those of ``sct evaluate --out``, one for each control. The length power is that
which was chosen on validation, the source's own if not given. The model card is written
by hand and stays where it is.
"""

import argparse
import json
import shutil
import tempfile
import tomllib
from pathlib import Path

from sct.captioner.bundle import add_sorter, load_bundle, save_bundle

LARGEST_MB = 60
DATA = "flickr8k-entities"


def pack(source: Path, folder: Path, evaluations: list[Path], length_penalty: float | None = None) -> None:
    """Write the files of the bundle into the folder, over those of an earlier one."""
    bundle = load_bundle(source)
    if bundle.sorter is None:
        raise SystemExit(
            f"{source} has no sorter: expected one, as sct train recipes/sorter/flickr8k_pointer.toml adds"
        )
    power = bundle.length_penalty if length_penalty is None else length_penalty
    scores = [json.loads((evaluation / "scores.json").read_text("utf-8")) for evaluation in evaluations]
    for evaluation, score in zip(evaluations, scores, strict=True):
        if score["settings"]["length_penalty"] != power:
            raise SystemExit(
                f"{evaluation} was ranked by the length to the power of {score['settings']['length_penalty']}, and the "
                f"bundle says {power}: expected the same"
            )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        captioner, packed = Path(place) / "captioner", Path(place) / "packed"
        save_bundle(
            captioner,
            bundle.captioner,
            bundle.vocabulary,
            provenance={**bundle.provenance, "data": DATA},
            precision="int8",
            nouns=bundle.nouns,
            vision=bundle.vision,
            length_penalty=power,
        )
        learned = tomllib.loads((source / "sorter.toml").read_text("utf-8"))["provenance"]
        add_sorter(captioner, bundle.sorter, packed, provenance={**learned, "data": DATA})
        for file in sorted(packed.iterdir()):
            shutil.copyfile(file, folder / file.name)
    by_control = {score["settings"]["control"]: score for score in scores}
    (folder / "scores.json").write_text(json.dumps(by_control, indent=1) + "\n", "utf-8")
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    print(f"{folder}: {size:.1f} MB of at most {LARGEST_MB}")
    if size > LARGEST_MB:
        raise SystemExit(f"it may have {LARGEST_MB} MB: make the captioner or the network that sees smaller")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("evaluations", type=Path, nargs="*")
    parser.add_argument("--length-power", type=float, help="rank captions by score / length ** this")
    given = parser.parse_args()
    pack(given.source, given.folder, given.evaluations, given.length_penalty)
