"""Evaluation straight from images and human boxes: what is looked at, what is kept, what a sorter may know."""

import json

import numpy as np
import pytest
from PIL import Image

from sct.captioner.captioner import CaptionOptions
from sct.errors import InputError
from sct.evaluation.evaluate import EvaluationSettings, Evaluator, score_and_save
from sct.evaluation.from_images import look_at_file
from sct.evaluation.predict import DatasetSorter
from sct.evaluation.scoring import NounLexicon
from sct.language.noun_table import NounTable
from sct.language.word_vectors import WordVectors
from sct.sorting import ClassOrder, ControlSorter
from tests.colour_vision import ColourVision, quartered
from tests.evaluation.small_captioner import FEATURES, small_captioner

RED, GREEN, BLUE, GREY = (220, 0, 0), (0, 200, 0), (0, 0, 180), (128, 128, 128)
LEFT, RIGHT, BOTTOM = [0, 0, 20, 20], [20, 0, 40, 20], [0, 10, 40, 20]


def mention(text, phrase, *boxes):
    first = text.split().index(phrase.split()[0])
    return {"phrase": phrase, "span": [first, first + len(phrase.split())], "boxes": list(boxes)}


def caption(text, **phrases):
    return {"text": text, "mentions": [mention(text, noun, *boxes) for noun, boxes in phrases.items()]}


def line(name, *captions, width=40, height=20):
    return {"image": name, "width": width, "height": height, "captions": list(captions)}


PLAIN = {"text": "A man .", "mentions": None}
LINES = (
    line(
        "a.png",
        caption("man near dog .", man=[LEFT], dog=[RIGHT]),
        caption("dog and man .", dog=[RIGHT], man=[LEFT]),
        caption("man with dog .", man=[LEFT], dog=[RIGHT]),
        PLAIN,
        {"text": "Nothing here .", "mentions": []},
    ),
    line("b.png", caption("men on grass .", men=[LEFT, RIGHT], grass=[BOTTOM])),
    line("c.png", PLAIN),
)


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "images").mkdir()
    Image.fromarray(quartered(RED, GREEN, GREY, BLUE)).save(tmp_path / "images" / "a.png")
    Image.fromarray(quartered(BLUE, RED, GREEN, GREEN)).save(tmp_path / "images" / "b.png")
    return written(tmp_path, LINES)


def written(folder, lines, name="val.jsonl"):
    path = folder / name
    path.write_text("\n".join(json.dumps(each) for each in lines))
    return path


def evaluator(found, control="sequence", **parts):
    captioner = small_captioner()
    settings = EvaluationSettings(metrics=("R", "C"), control=control)
    return Evaluator(captioner, found.dataset, found.features, settings, **parts)


def test_captions_of_people_are_grouped_by_control(corpus):
    vision = ColourVision(FEATURES)
    found = look_at_file(vision, corpus)
    assert [[name[-5:] for name in look] for look in vision.looks] == [["a.png", "b.png"]], "once, and only what counts"
    lines = evaluator(found).caption()
    assert [(each.image, each.references) for each in lines] == [
        ("a.png", ("man near dog .", "man with dog .")),
        ("a.png", ("dog and man .",)),
        ("b.png", ("men on grass .",)),
    ]
    assert lines[2].control == (((0, 0, 20, 20), (20, 0, 40, 20)), ((0, 10, 40, 20),))


def test_says_what_a_user_would_be_told_of_the_same_boxes(corpus):
    vision = ColourVision(FEATURES)
    lines = evaluator(look_at_file(vision, corpus)).caption()
    captioner = small_captioner(vision=vision)
    for each in lines:
        told = captioner.caption(corpus.parent / "images" / each.image, each.control, options=CaptionOptions())
        assert told.text == each.prediction
        assert told.log_prob == pytest.approx(each.log_prob, abs=1e-4)


def test_a_sorter_knows_what_the_eyes_see_and_people_judge(corpus):
    """People call the left a man; the eyes call it red, and no human word may reach the sorter."""
    found = look_at_file(ColourVision(FEATURES), corpus)
    assert [region.class_name for region in found.dataset["a.png"].regions] == ["man", "dog"]
    assert [region.class_name for region in found.seen.image(0).regions] == ["red", "green"]
    vectors = WordVectors("one number", {"red": 0, "green": 1}, np.ones((2, 1), np.float32))
    for places, first in (({"red": 0.0, "green": 1.0}, LEFT), ({"red": 1.0, "green": 0.0}, RIGHT)):
        sorter = DatasetSorter(ControlSorter(ClassOrder(places), vectors), found.seen, found.features)
        [of_a, _] = evaluator(found, "set", sorter=sorter).caption()
        assert of_a.references == ("man near dog .", "dog and man .", "man with dog .")
        assert of_a.control[0] == (tuple(first),)


def test_without_control_an_image_is_what_the_eyes_propose(corpus):
    found = look_at_file(ColourVision(FEATURES), corpus, with_proposals=True)
    [of_a, of_b] = evaluator(found, "none").caption()
    # Scores go before none: three colourful quarters of the first image, four of the second, then what people drew.
    assert sorted(map(tuple, of_a.control[0]))[:2] == [(0, 0, 20, 10), (0, 0, 20, 20)]
    assert len(of_a.control[0]) == 3 + 2
    assert len(of_b.control[0]) == 4 + 3


def test_grounding_is_judged_by_people(corpus, tmp_path):
    found = look_at_file(ColourVision(FEATURES), corpus)
    part = evaluator(found)
    judgement = score_and_save(part.caption(), tmp_path / "out", part.settings, dataset=found.dataset)
    assert judgement.grounding.figures["human_noun_similarity"] is not None
    assert (tmp_path / "out" / "scores.json").exists()


def test_without_spacy_there_is_less_to_judge_by(corpus, tmp_path, monkeypatch):
    def missing(self):
        raise InputError("spaCy's English is not installed")

    monkeypatch.setattr("sct.language.noun_chunks.NounChunker.__init__", missing)
    monkeypatch.setattr("sct.language.pos_tags.NounTagger.__init__", missing)
    found = look_at_file(ColourVision(FEATURES), corpus)
    assert found.dataset.nouns is None
    assert [region.class_name for region in found.dataset["a.png"].regions] == [None, None]
    part = evaluator(found)
    judgement = score_and_save(part.caption(), tmp_path / "out", part.settings, dataset=found.dataset)
    assert "install 'show-control-and-tell[prepare]'" in judgement.unavailable()["class_match"]
    table = NounTable.from_vectors(["dog"], np.ones((1, 3)), "three ones")
    assert look_at_file(ColourVision(FEATURES), corpus, nouns=NounLexicon(table=table)).dataset.nouns is table


def test_boxes_follow_a_image_of_another_size(corpus):
    expected = look_at_file(ColourVision(FEATURES), corpus, with_proposals=True)
    with Image.open(corpus.parent / "images" / "a.png") as small:
        small.resize((400, 201), Image.Resampling.NEAREST).save(corpus.parent / "images" / "a.png")
    found = look_at_file(ColourVision(FEATURES), corpus, with_proposals=True)
    assert np.allclose(found.dataset.table.columns["region_box"], expected.dataset.table.columns["region_box"])
    assert np.allclose(found.features([0]).regions, expected.features([0]).regions, atol=0.05)


def test_many_images_are_looked_at_a_few_at_a_time(corpus):
    lines = []
    for number in range(11):
        Image.fromarray(quartered(RED, BLUE)).save(corpus.parent / "images" / f"{number}.png")
        lines.append(line(f"{number}.png", caption("man near dog .", man=[LEFT], dog=[RIGHT])))
    vision, told = ColourVision(FEATURES), []
    look_at_file(vision, written(corpus.parent, lines), progress=lambda done, total: told.append((done, total)))
    assert [len(look) for look in vision.looks] == [8, 3]
    assert told == [(8, 11), (11, 11)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param([], "has no caption with mentions", id="nothing"),
        pytest.param([line("a.png", PLAIN)], "has no caption with mentions", id="nothing that people grounded"),
        pytest.param([line("z.png", caption("dog .", dog=[LEFT]))], "z.png does not exist", id="a missing image"),
        pytest.param(
            [line("a.png", caption("dog .", dog=[LEFT]), width=20, height=40)],
            "a.png is 40 x 20, but its line says 20 x 40",
            id="another image",
        ),
        pytest.param([{"image": "a.png"}], "line 1: width is", id="a broken line"),
    ],
)
def test_refusals(corpus, lines, message):
    with pytest.raises(InputError, match=message) as error:
        look_at_file(ColourVision(FEATURES), written(corpus.parent, lines, "test.jsonl"))
    assert "--skip-bad" not in str(error.value)


def test_images_must_be_beside_the_file(tmp_path):
    with pytest.raises(InputError, match=r"images is no folder: expected the images of val\.jsonl there"):
        look_at_file(ColourVision(FEATURES), written(tmp_path, LINES))
