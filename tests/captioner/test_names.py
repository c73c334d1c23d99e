"""Names of regions, banned and required words, and fits, with the shipped bundle."""

from pathlib import Path

import numpy as np
import pytest

import sct
from sct.captioner.fits import FitCalibration
from sct.captioner.names import nearest_words, parse_name
from sct.captioner.requests import ImageRequest
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.regions import Box, Region
from sct.regions.parsing import as_control
from sct.regions.records import RegionSet

PHOTO = Path(__file__).parents[2] / "examples" / "photos" / "otters.jpg"
OTTER, OTHER, WATER = Box(197, 100, 600, 290), Box(30, 120, 250, 300), Box(0, 0, 640, 255)
VOCABULARY = Vocabulary.from_counts(dict.fromkeys(("a", "white", "horse", "horses", "dog", "stone", "people"), 9))
TABLE = NounTable.from_vectors(["horse", "pony", "dog"], np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), "toy")


@pytest.fixture(scope="module")
def captioner():
    return sct.load()


@pytest.mark.parametrize(
    ("name", "num_regions", "modifiers", "heads"),
    [
        pytest.param("horse", 1, (), ("horse",), id="one region, singular"),
        pytest.param("horses", 1, (), ("horses",), id="plural as given"),
        pytest.param("Horse", 2, (), ("horse", "horses"), id="several regions"),
        pytest.param("a white horse", 1, ("white",), ("horse",), id="article and modifier"),
        pytest.param("person", 1, (), ("people",), id="only another inflection is known"),
    ],
)
def test_parse_name(name, num_regions, modifiers, heads):
    found = parse_name(name, num_regions, VOCABULARY, TABLE)
    assert (found.modifiers, found.heads) == (modifiers, heads)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("pony", "did you mean horse", id="by meaning"),
        pytest.param("stoen", "did you mean stone", id="by spelling"),
        pytest.param("very large white old horse", "expected 1 to 4 words", id="too long"),
        pytest.param("zzz", r"the vocabulary$", id="nothing near"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_words(name, message):
    with pytest.raises(InputError, match=message):
        parse_name(name, 1, VOCABULARY, TABLE)


def test_nearest_words_without_vectors():
    assert nearest_words("dogg", VOCABULARY, None) == ("dog",)


def chunk_of(caption, region_set):
    return next(chunk.text for chunk in caption.chunks if chunk.region_set == region_set)


@pytest.mark.parametrize("name", ["horse", "white horse", "two boys", "elephant"])
@pytest.mark.parametrize("place", [0, 1])
def test_the_chunk_of_a_named_region_says_the_name(captioner, name, place):
    boxes = [OTTER, WATER]
    regions = [Region(box, name=name if number == place else None) for number, box in enumerate(boxes)]
    caption = captioner.caption(PHOTO, regions)
    assert name in chunk_of(caption, place)
    assert "two boys is" not in caption.text
    assert "a elephant" not in caption.text
    assert caption.as_dict()["names"][place] == [name]


def test_several_boxes_allow_a_plural(captioner):
    named = RegionSet((Region(OTTER, name="horse"), Region(OTHER, name="horse")))
    assert "horse" in chunk_of(captioner.caption(PHOTO, [named, WATER]), 0)


def test_names_survive_sorting(captioner):
    caption = captioner.caption(PHOTO, [Region(WATER, name="lake"), OTTER], ordered=False)
    assert "lake" in chunk_of(caption, 0)


def test_a_banned_word_bans_its_inflections(captioner):
    options = sct.CaptionOptions(banned_words=("dog",))
    words = captioner.caption(PHOTO, [OTTER, WATER], options=options).text.split()
    assert {"dog", "dogs"}.isdisjoint(words)


def test_a_required_noun_describes_the_region_that_it_fits(captioner):
    plain = captioner.caption(PHOTO, [OTTER, WATER])
    options = sct.CaptionOptions(required_words=("puppy",))
    caption = captioner.caption(PHOTO, [OTTER, WATER], options=options)
    assert "puppy" in chunk_of(caption, 0)
    assert len(caption.words) <= len(plain.words) + 3


def test_a_batch_does_not_change_captions_with_names(captioner):
    requests = [
        ImageRequest(PHOTO, as_control([Region(OTTER, name="white horse"), WATER])),
        ImageRequest(PHOTO, as_control([OTTER, WATER])),
        ImageRequest(PHOTO, as_control([OTTER])),
    ]
    options = sct.CaptionOptions(required_words=("water",))
    together = [found[0].text for found in captioner.caption_images(requests, options)]
    assert together == [captioner.caption_images([request], options)[0][0].text for request in requests]


def test_fits_tell_right_from_wrong_nouns(captioner):
    right = captioner.caption(PHOTO, [Region(WATER)]).chunks[0]
    wrong = captioner.caption(PHOTO, [Region(WATER, name="horse")]).chunks[0]
    assert right.fits is not None
    assert wrong.fits is not None
    assert wrong.fits < 0.5
    assert right.fits > wrong.fits


def test_min_fit_prefers_nouns_that_fit(captioner):
    def worst(min_fit):
        caption = captioner.caption(PHOTO, [WATER, OTTER], options=sct.CaptionOptions(cover=True, min_fit=min_fit))
        return min(chunk.fits for chunk in caption.chunks)

    assert worst(0.5) >= worst(0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"banned_words": ("horse",)}, "both as the name of a region and as a banned word", id="banned"),
        pytest.param({"whole_chunks": False}, "does not know noun chunks", id="chunks off"),
        pytest.param({"max_length": 3}, "need .* steps with EOS", id="too short"),
    ],
)
def test_rejects_names_that_cannot_be_said(captioner, options, message):
    regions = [WATER, Region(OTTER, name="white horse")]
    with pytest.raises(InputError, match=message):
        captioner.caption(PHOTO, regions, options=sct.CaptionOptions(**options))


def test_rejects_two_names_in_one_set():
    with pytest.raises(InputError, match="in one region set"):
        RegionSet((Region(OTTER, name="horse"), Region(WATER, name="lake")))


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_rejects_min_fit_out_of_range(value):
    with pytest.raises(InputError, match="min_fit"):
        sct.CaptionOptions(min_fit=value)


def test_calibration_is_read_back(tmp_path):
    calibration = FitCalibration(intercept=1.5, named=0.5, similar=-0.25)
    calibration.save(tmp_path / "fits.toml")
    assert FitCalibration.load(tmp_path / "fits.toml") == calibration


@pytest.mark.parametrize("line", ["named = nan", "named = true", "other = 1.0"])
def test_rejects_a_damaged_calibration(tmp_path, line):
    path = tmp_path / "fits.toml"
    path.write_text(f'format = "sct fits"\nversion = 1\nintercept = 1.0\n{line}\nsimilar = 1.0\n')
    with pytest.raises(InputError, match=r"fits\.toml"):
        FitCalibration.load(path)
