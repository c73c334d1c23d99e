import json
from dataclasses import replace

import numpy as np
import pytest

from sct.data.coco_classes import COCO_NAMES
from sct.data.dataset import Dataset
from sct.data.grounding.config import GrounderConfig
from sct.data.grounding.fit import fit_weights, format_parameters
from sct.data.grounding.region_score import FEATURES, RegionEvidence, RegionScorer, ScoreParameters, boxed_shares
from sct.data.prepare import PrepareConfig, prepare
from sct.data.readers.errors import ReadErrors
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.language.noun_chunks import NounChunk
from sct.language.tokenizer import tokenize
from sct.language.word_vectors import load_vectors
from sct.regions import Box, Region
from sct.regions.detections import Detections, DetectionVocabulary
from sct.regions.detections_writer import DetectionBatch, write_detections

CLASSES, WORDS = ("man", "woman", "dog", "shirt", "grass"), ("man", "woman", "dog", "shirt", "red", "blue")
PARAMETERS = ScoreParameters(weights=(1.0, 1.0, 1.0, 1.0, 0.1), bias=3.0, threshold=0.2)


def make_detections(folder, *rows, image_id="1"):
    """Detections side by side, each of a class with words: its class at .8, its words at .9."""
    word_ids = [[*map(WORDS.index, words), *[len(WORDS) - 1] * 2][:2] for _, words in rows]
    probabilities = [[*[0.9] * len(words), 0.0, 0.0][:2] for _, words in rows]
    number = len(rows)
    batch = DetectionBatch(
        image_ids=[image_id],
        sizes=np.array([[100, 50]]),
        counts=np.array([number]),
        boxes=np.array([[n / 10, 0, (n + 1) / 10, 0.5] for n in range(number)], np.float32).reshape(-1, 4),
        scores=np.full(number, 0.9, np.float32),
        class_ids=np.array([CLASSES.index(name) for name, _ in rows], int)[:, None],
        class_probabilities=np.full((number, 1), 0.8, np.float32),
        word_ids=np.array(word_ids, int).reshape(-1, 2),
        word_probabilities=np.array(probabilities, np.float32).reshape(-1, 2),
    )
    vocabulary = DetectionVocabulary(
        class_names=CLASSES, words=WORDS, attributes=("red", "blue"), encoder_sha256="0" * 64
    )
    path = folder / "detections.safetensors"
    write_detections(path, vocabulary, [batch])
    return Detections.open(path)


def image(*texts, regions=(), image_id="1.jpg"):
    captions = tuple(Caption(text, tuple(tokenize(text))) for text in texts)
    return AnnotatedImage(
        image_id=image_id, split="train", width=100, height=50, regions=tuple(regions), captions=captions
    )


def ground(detections, annotated, mode="learned", class_names=None):
    config = GrounderConfig(class_names=class_names, mode=mode, detections=detections, parameters=PARAMETERS)
    [found] = config.build().ground([annotated])
    return found


def region(number, class_name=None):
    """Region in the place of a detection."""
    return Region(Box(number * 10, 0, (number + 1) * 10, 25), class_name)


def sets(found, caption=0):
    return [chunk.regions for chunk in found.captions[caption].chunks]


def test_learned_grounding_tells_regions_apart_by_noun_and_adjective(tmp_path):
    detections = make_detections(
        tmp_path, ("shirt", ["shirt", "blue"]), ("shirt", ["shirt", "red"]), ("man", ["man"]), ("grass", [])
    )
    found = ground(detections, image("A man in a red shirt .", "A boat ."))
    assert sets(found) == [(2,), (1,)]
    assert [(chunk.class_name, chunk.lemma) for chunk in found.captions[0].chunks] == [("man",) * 2, ("shirt",) * 2]
    assert found.captions[1].chunks == (Chunk(None, (), "boat"),)
    assert [(r.class_name, r.score) for r in found.regions][3] == ("grass", pytest.approx(0.9, abs=0.01))
    assert found.regions[1].box == pytest.approx((10, 0, 20, 25), abs=0.01)


def test_plural_chunks_take_several_regions_and_coreferent_ones_share(tmp_path):
    detections = make_detections(tmp_path, ("dog", ["dog"]), ("man", ["man"]), ("dog", ["dog"]))
    assert sets(ground(detections, image("Two dogs play with a man while the man sits ."))) == [(0, 2), (1,), (1,)]


def test_human_boxes_come_first_where_a_class_fits(tmp_path):
    detections = make_detections(
        tmp_path, ("woman", ["woman"]), ("man", ["man"]), ("man", ["man"]), ("shirt", ["shirt"])
    )
    annotated = image(
        "A man , a woman and a shirt .", "Two people .", regions=[region(1, "person"), region(0, "person")]
    )
    found = ground(detections, annotated, class_names=COCO_NAMES)
    # Detections 0 and 1 are the human boxes, which are told apart by their words; detection 2 is nobody's man.
    assert sets(found) == [(0,), (1,), (3,)]
    assert [chunk.class_name for chunk in found.captions[0].chunks] == ["person", "person", "shirt"]
    assert sorted(sets(found, 1)[0]) == [0, 1]
    assert [r.class_name for r in found.regions] == ["person", "person", "man", "shirt"]


def test_human_groundings_stay_and_are_transferred_before_detections(tmp_path):
    detections = make_detections(tmp_path, ("man", ["man"]), ("dog", ["dog"]))
    human = Caption("A man", ("a", "man"), (0, 0), (Chunk(None, (0,)),))
    annotated = image("The man with a dog .", regions=[region(5)])
    found = ground(detections, replace(annotated, captions=(human, *annotated.captions)))
    assert sets(found) == [(0,)]
    assert sets(found, 1) == [(0,), (2,)]


def test_images_with_human_groundings_only_get_no_detections(tmp_path):
    human = Caption("A man", ("a", "man"), (0, 0), (Chunk(None, (0,)),))
    annotated = replace(image(regions=[region(0)]), captions=(human,))
    assert ground(make_detections(tmp_path, ("man", ["man"])), annotated).regions == (region(0, "man"),)


def test_used_detections_are_kept_and_the_best_others_up_to_a_set(tmp_path):
    detections = make_detections(tmp_path, *[("grass", [])] * 9, ("dog", ["dog"]))
    crowd = [Region(Box(0, 30, 1 + number, 40), "person") for number in range(15)]
    found = ground(detections, image("A dog .", regions=crowd))
    assert [r.class_name for r in found.regions[15:]] == [*["grass"] * 4, "dog"]
    assert sets(found) == [(19,)]


def test_paper_grounding_takes_all_detections_of_the_first_class_that_is_present(tmp_path):
    detections = make_detections(tmp_path, ("woman", []), ("dog", []), ("woman", []))
    found = ground(detections, image("A man near the grass .", regions=[region(5, "person")]), "paper")
    assert found.captions[0].chunks[0].class_name == "woman", "by similarity, without a threshold"
    assert sets(found)[0] == (0, 2)
    assert [r.class_name for r in found.regions] == ["woman", "dog", "woman"], "the source's boxes are left out"
    assert found.regions[0].score == pytest.approx(0.8, abs=0.01), "probability of the class"


def test_paper_grounding_without_detections_uses_the_regions_of_the_source():
    annotated = image("A boat .", regions=[region(0, "boat"), region(1, "dog"), region(2, "boat")])
    assert sets(ground(None, annotated, "paper", COCO_NAMES)) == [(0, 2)]
    far = image("A boat .", regions=[region(0, "toothbrush")])
    assert sets(ground(None, far, "paper", COCO_NAMES)) == [()], "not one of the five most similar classes"


def test_paper_grounding_looks_up_five_classes_by_similarity_alone():
    rule = GrounderConfig(class_names=COCO_NAMES, mode="paper").build().method
    found = rule.index.candidates("boy")
    assert len(found) == 5, "not only the class whose hand-written name it is"
    assert all(candidate.similarity < 1 for candidate in found), '"boy" is no name of a class'
    assert list(found) == sorted(found, key=lambda candidate: -candidate.similarity)


@pytest.mark.parametrize("mode", ["learned", "paper"])
def test_an_image_without_detections_has_ungrounded_chunks(tmp_path, mode):
    assert sets(ground(make_detections(tmp_path), image("A man ."), mode)) == [()]


def test_an_image_that_was_not_detected_is_an_error_or_skipped(tmp_path):
    grounder = GrounderConfig(
        class_names=None, mode="learned", detections=make_detections(tmp_path, ("man", [])), parameters=PARAMETERS
    ).build()
    images = [image("A man .", image_id="2"), image("A man .")]
    with pytest.raises(InputError, match=r"image '2' is not in .*: run sct detect on it"):
        list(grounder.ground(images))
    errors = ReadErrors(skip=True)
    assert [found.image_id for found in grounder.ground(images, errors)] == ["1.jpg"]
    assert len(errors.messages) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"mode": "learned"}, "needs detections: give --detections FILE", id="learned without detections"),
        pytest.param({"mode": "paper", "min_similarity": 0.5}, "omit --min-similarity", id="threshold of the paper"),
        pytest.param({"min_similarity": 2}, "expected -1 to 1", id="similarity out of range"),
    ],
)
def test_settings_that_clash_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        GrounderConfig(class_names=COCO_NAMES, **options).check()


def test_weights_of_another_encoder_are_reported(tmp_path, caplog):
    detections = make_detections(tmp_path, ("dog", ("dog",)))
    for parameters, is_reported in ((PARAMETERS, False), (replace(PARAMETERS, encoder_sha256="1" * 64), True)):
        GrounderConfig(class_names=None, mode="learned", detections=detections, parameters=parameters).check()
        assert ("fitted to another vision encoder" in caplog.text) == is_reported


def test_a_noun_that_is_no_class_is_scored_by_similar_names(tmp_path):
    detections = make_detections(tmp_path, ("grass", []), ("woman", ["woman"]))
    scorer = RegionScorer(detections.vocabulary, load_vectors(), PARAMETERS)
    evidence = RegionEvidence.of(detections.get("1"), detections.vocabulary)
    girl = NounChunk(0, 4, "girl", "girl", ("a",), is_plural=False)
    by_class, by_word = scorer.features(girl, evidence)[:, :2].T
    assert by_class[1] > by_class[0]
    assert by_word[1] > by_word[0]
    assert scorer.class_name(girl) is None


def test_nouns_that_people_seldom_box_are_less_probable(tmp_path, monkeypatch):
    """A living room and a street have no box of their own."""
    assert boxed_shares()["room"] < 0.3
    assert all(0 <= share < 1 for share in boxed_shares().values())
    detections = make_detections(tmp_path, ("dog", ["dog"]))
    scorer = RegionScorer(detections.vocabulary, load_vectors(), PARAMETERS)
    evidence = RegionEvidence.of(detections.get("1"), detections.vocabulary)
    dogs = NounChunk(0, 4, "dogs", "dog", ("the",), is_plural=True)
    often = scorer.probabilities(dogs, evidence)
    monkeypatch.setattr("sct.data.grounding.region_score.boxed_shares", lambda: {"dog": 0.25})
    assert scorer.probabilities(dogs, evidence) == pytest.approx(often * 0.25)


def test_fit_recovers_the_weights_and_the_file_is_read_back(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(4000, len(FEATURES)))
    weights = np.array([1.0, -1.0, 0.5, 2.0, 0.0])
    is_right = generator.random(4000) < 1 / (1 + np.exp(-(features @ weights - 1)))
    fitted = fit_weights(features, is_right, threshold=0.25)
    assert fitted.weights == pytest.approx(weights, abs=0.15)
    assert fitted.bias == pytest.approx(-1, abs=0.15)
    (tmp_path / "learned.toml").write_text(
        format_parameters(fitted, {"encoder_sha256": "0"}, ["comment"]), encoding="utf-8"
    )
    monkeypatch.setattr("sct.data.grounding.region_score.files", lambda _: tmp_path)
    assert ScoreParameters.load().weights == pytest.approx(fitted.weights, rel=1e-3)
    assert ScoreParameters.load().threshold == 0.25


def test_shipped_parameters_reward_all_evidence():
    parameters = ScoreParameters.load()
    assert min(parameters.weights) > 0
    assert 0 < parameters.threshold < 1


def test_prepare_grounds_on_detections_by_default_by_the_learned_score(tmp_path):
    detections = make_detections(tmp_path, ("dog", ["dog"]), ("man", ["man"]))
    line = {"image": "1.jpg", "width": 100, "height": 50, "captions": [{"text": "A dog .", "mentions": None}]}
    source = tmp_path / "train.jsonl"
    source.write_text(json.dumps(line), encoding="utf-8")
    found = {}
    for mode in (None, "paper"):
        config = PrepareConfig(detections=detections.paths, grounding=mode, workers=1)
        prepare(source, tmp_path / str(mode), config)
        dataset = Dataset.open(tmp_path / str(mode))
        for setting in ("score_weights", "boxed_shares"):
            assert (setting in dataset.manifest.settings) == (mode is None)
        found[dataset.manifest.settings["grounding"]] = dataset["1.jpg"].captions[0].chunks
    assert found == {"learned": (Chunk("dog", (0,), "dog"),), "paper": (Chunk("dog", (0,), "dog"),)}
    with pytest.raises(InputError, match="does not use detections: omit --detections"):
        prepare(source, tmp_path / "out", PrepareConfig(detections=detections.paths, grounding="classes", workers=1))
