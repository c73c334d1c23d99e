"""Evaluation from images with human boxes."""

import json

import numpy as np
import pytest
from PIL import Image

from sct.errors import InputError
from sct.evaluation.config import PLAIN_SEARCH, EvaluationConfig
from sct.evaluation.evaluate import Evaluator
from sct.evaluation.from_images import encode_dataset
from sct.evaluation.predict import DatasetSorter
from sct.evaluation.scoring import NounLexicon, score_and_save
from sct.language.noun_table import NounTable
from sct.language.word_vectors import WordVectors
from sct.sorting.baselines import ClassOrder
from sct.sorting.sorter import ControlSorter
from tests.color_vision import BLUE, GRAY, GREEN, RED, ColorVision, paint_quarters
from tests.factories import make_layout_captioner

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
    Image.fromarray(paint_quarters(RED, GREEN, GRAY, BLUE)).save(tmp_path / "images" / "a.png")
    Image.fromarray(paint_quarters(BLUE, RED, GREEN, GREEN)).save(tmp_path / "images" / "b.png")
    return write_lines(tmp_path, LINES)


def write_lines(folder, lines, name="val.jsonl"):
    path = folder / name
    path.write_text("\n".join(json.dumps(each) for each in lines))
    return path


def make_evaluator(encoded, control="sequence", **parts):
    captioner = make_layout_captioner()
    config = EvaluationConfig(metrics=("R", "C"), control=control)
    return Evaluator(captioner, encoded.dataset, encoded.features, config, **parts)


def test_human_captions_are_grouped_by_control(corpus):
    vision = ColorVision()
    found = encode_dataset(vision, corpus)
    assert [[name[-5:] for name in look] for look in vision.encoded] == [["a.png", "b.png"]], (
        "only images with grounded captions, once"
    )
    lines = make_evaluator(found).caption()
    assert [(each.image, each.references) for each in lines] == [
        ("a.png", ("man near dog .", "man with dog .")),
        ("a.png", ("dog and man .",)),
        ("b.png", ("men on grass .",)),
    ]
    assert lines[2].control == (((0, 0, 20, 20), (20, 0, 40, 20)), ((0, 10, 40, 20),))


def test_captions_equal_those_of_user_boxes(corpus):
    vision = ColorVision()
    lines = make_evaluator(encode_dataset(vision, corpus)).caption()
    captioner = make_layout_captioner(vision=vision)
    for each in lines:
        caption = captioner.caption(corpus.parent / "images" / each.image, each.control, options=PLAIN_SEARCH)
        assert caption.text == each.prediction
        assert caption.log_prob == pytest.approx(each.log_prob, abs=1e-4)


def test_sorter_sees_detected_classes_only(corpus):
    """The left region is a man by annotation and red by detection."""
    found = encode_dataset(ColorVision(), corpus)
    assert [region.class_name for region in found.dataset["a.png"].regions] == ["man", "dog"]
    assert [region.class_name for region in found.detected.image(0).regions] == ["red", "green"]
    vectors = WordVectors("toy", {"red": 0, "green": 1}, np.ones((2, 1), np.float32))
    for places, first in (({"red": 0.0, "green": 1.0}, LEFT), ({"red": 1.0, "green": 0.0}, RIGHT)):
        sorter = DatasetSorter(ControlSorter(ClassOrder(places), vectors), found.detected, found.features)
        [of_a, _] = make_evaluator(found, "set", sorter=sorter).caption()
        assert of_a.references == ("man near dog .", "dog and man .", "man with dog .")
        assert of_a.control[0] == (tuple(first),)


def test_control_none_adds_proposals(corpus):
    found = encode_dataset(ColorVision(), corpus, with_proposals=True)
    [of_a, of_b] = make_evaluator(found, "none").caption()
    # Proposals have scores and come first: 3 of the first image, 4 of the second; then the human boxes.
    assert sorted(map(tuple, of_a.control[0]))[:2] == [(0, 0, 20, 10), (0, 0, 20, 20)]
    assert len(of_a.control[0]) == 3 + 2
    assert len(of_b.control[0]) == 4 + 3


def test_grounding_scores(corpus, tmp_path):
    found = encode_dataset(ColorVision(), corpus)
    evaluator = make_evaluator(found)
    result = score_and_save(evaluator.caption(), tmp_path / "out", evaluator.config, dataset=found.dataset)
    assert result.grounding["human_noun_similarity"] is not None
    assert (tmp_path / "out" / "scores.json").exists()


def test_without_spacy(corpus, tmp_path, monkeypatch):
    def missing(*_):
        raise InputError("spaCy's English is not installed")

    monkeypatch.setattr("sct.language.noun_chunks.NounChunker.__init__", missing)
    monkeypatch.setattr("sct.language.pos_tags.PosTagger.__init__", missing)
    found = encode_dataset(ColorVision(), corpus)
    assert found.dataset.nouns is None
    assert [region.class_name for region in found.dataset["a.png"].regions] == [None, None]
    evaluator = make_evaluator(found)
    result = score_and_save(evaluator.caption(), tmp_path / "out", evaluator.config, dataset=found.dataset)
    assert "install 'show-control-and-tell[prepare]'" in result.unavailable["class_match"]
    table = NounTable.from_vectors(["dog"], np.ones((1, 3)), "toy")
    assert encode_dataset(ColorVision(), corpus, nouns=NounLexicon(table=table)).dataset.nouns is table


def test_boxes_are_scaled_to_the_image_size(corpus):
    expected = encode_dataset(ColorVision(), corpus, with_proposals=True)
    with Image.open(corpus.parent / "images" / "a.png") as small:
        small.resize((400, 201), Image.Resampling.NEAREST).save(corpus.parent / "images" / "a.png")
    found = encode_dataset(ColorVision(), corpus, with_proposals=True)
    assert np.allclose(found.dataset.table.columns["region_box"], expected.dataset.table.columns["region_box"])
    assert np.allclose(found.features([0]).regions, expected.features([0]).regions, atol=0.05)


def test_images_are_encoded_in_batches(corpus):
    lines = []
    for number in range(11):
        Image.fromarray(paint_quarters(RED, BLUE)).save(corpus.parent / "images" / f"{number}.png")
        lines.append(line(f"{number}.png", caption("man near dog .", man=[LEFT], dog=[RIGHT])))
    vision, calls = ColorVision(), []
    encode_dataset(vision, write_lines(corpus.parent, lines), progress=lambda done, total: calls.append((done, total)))
    assert [len(look) for look in vision.encoded] == [8, 3]
    assert calls == [(8, 11), (11, 11)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param([], "has no caption with mentions", id="empty file"),
        pytest.param([line("a.png", PLAIN)], "has no caption with mentions", id="no grounded caption"),
        pytest.param([line("z.png", caption("dog .", dog=[LEFT]))], "image .z\\.png. is not in", id="missing image"),
        pytest.param(
            [line("a.png", caption("dog .", dog=[LEFT]), width=20, height=40)],
            "got an image of 40 x 20, its annotation has 20 x 40",
            id="other aspect ratio",
        ),
        pytest.param([{"image": "a.png"}], "line 1: got size", id="invalid line"),
    ],
)
def test_invalid_files_are_rejected(corpus, lines, message):
    with pytest.raises(InputError, match=message) as error:
        encode_dataset(ColorVision(), write_lines(corpus.parent, lines, "test.jsonl"))
    assert "--skip-bad" not in str(error.value)


def test_missing_image_folder(tmp_path):
    with pytest.raises(InputError, match=r"images is not a folder, expected the images of val\.jsonl there"):
        encode_dataset(ColorVision(), write_lines(tmp_path, LINES))
