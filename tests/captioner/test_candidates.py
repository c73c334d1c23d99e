"""Captions without a control: detected things, candidate controls, and the rank of their captions."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sct.captioner.candidates import (
    MAX_CANDIDATE_BEAM,
    CandidateRanker,
    candidate_controls,
    expand_candidates,
    find_things,
)
from sct.captioner.encode import encode_requests
from sct.captioner.grounded_caption import GroundedChunk, ungrounded_caption
from sct.captioner.requests import CaptionOptions, ImageRequest, ProposalSelection, RegionRequest
from sct.errors import InputError
from sct.regions import Box, Control, Region, RegionSet
from sct.vision.classifier import RegionClassifier
from tests.color_vision import ColorVision, paint_quarters
from tests.factories import BLUE, FEATURE_SIZE, GRAY, GREEN, RED, WORDS, make_captioner, make_vision_encoder

SELECTION = ProposalSelection()


def proposal(x, name="man", score=0.9, *, width=10, height=10, feature=None):
    return Region(Box(x, 0, x + width, height), name, score, feature)


WHOLE = proposal(0, None, None, width=200)
DOG, MAN, BALL, CAT, BIRD = (
    proposal(20 * place, name, 0.9 - 0.1 * place) for place, name in enumerate(("dog", "man", "ball", "cat", "bird"))
)


class SeenWords(RegionClassifier):
    """Classifier for which the feature of a region is the probability of each word, or any region has these."""

    def __init__(self, words, probabilities=None):
        encoder = make_vision_encoder()
        super().__init__(encoder.network, encoder.class_names)
        self.words, self._probabilities = words, probabilities

    def word_probabilities(self, features):
        return features if self._probabilities is None else torch.tensor([self._probabilities] * len(features))


def things(proposals, **selection):
    return [list(each.regions) for each in find_things(proposals, ProposalSelection(**selection))]


@pytest.mark.parametrize(
    ("proposals", "selection", "expected"),
    [
        pytest.param([], {}, [], id="no proposals"),
        pytest.param([DOG], {}, [[DOG]], id="one"),
        pytest.param([DOG, MAN], {}, [[DOG], [MAN]], id="two classes"),
        pytest.param([DOG, MAN, BALL, CAT, BIRD], {}, [[DOG], [MAN], [BALL], [CAT]], id="four at most"),
        pytest.param([DOG, MAN, BALL], {"num_things": 1}, [[DOG]], id="one at most"),
        pytest.param(
            [DOG, MAN, other := proposal(60, "dog", 0.5)], {}, [[DOG, other], [MAN]], id="two regions of a class"
        ),
        pytest.param(
            [DOG, MAN, other := proposal(60, "dog", 0.5)], {"num_things": 1}, [[DOG, other]], id="sets are limited"
        ),
        pytest.param([DOG, proposal(60, "dog", 0.44)], {}, [[DOG]], id="less than half the score of its class"),
        pytest.param(
            [DOG, ball := proposal(60, "ball", 0.44)], {}, [[DOG], [ball]], id="less than half, but another class"
        ),
        pytest.param([DOG, proposal(60, "ball", 0.17)], {}, [[DOG]], id="score below the threshold"),
        pytest.param(
            [DOG, ball := proposal(60, "ball", 0.17)],
            {"min_thing_score": 0.1},
            [[DOG], [ball]],
            id="score above the threshold",
        ),
        # 8 of 10 columns are inside; IoU with the larger box: 8 / 42 and 6 / 44.
        pytest.param([large := proposal(0, width=40), proposal(32)], {}, [[large]], id="inside a better one"),
        pytest.param(
            [large := proposal(0, width=40), edge := proposal(34)], {}, [[large, edge]], id="partly inside a better one"
        ),
        pytest.param(
            [large := proposal(0, width=40), dog := proposal(32, "dog")],
            {},
            [[large], [dog]],
            id="inside one of another class",
        ),
        pytest.param([DOG, proposal(2, "man")], {}, [[DOG]], id="NMS between classes"),
        pytest.param(
            [proposal(0, None, None), proposal(20, None, None)],
            {},
            [[proposal(0, None, None), proposal(20, None, None)]],
            id="neither classes nor scores",
        ),
    ],
)
def test_find_things(proposals, selection, expected):
    assert things(proposals, **selection) == expected


@pytest.mark.parametrize(
    ("proposals", "selection", "expected"),
    [
        pytest.param([], {}, [[WHOLE]], id="no proposals"),
        pytest.param([], {"max_regions": 1}, [[WHOLE]], id="no proposals, one region"),
        pytest.param([DOG], {}, [[DOG, WHOLE]], id="one thing"),
        pytest.param([DOG, MAN], {}, [[DOG, WHOLE], [MAN, WHOLE], [DOG, MAN, WHOLE]], id="two things"),
        pytest.param(
            [DOG, MAN, BALL],
            {},
            [
                *([DOG, WHOLE], [MAN, WHOLE], [BALL, WHOLE]),
                *([DOG, MAN, WHOLE], [DOG, BALL, WHOLE], [MAN, BALL, WHOLE]),
            ],
            id="pairs, not all three",
        ),
        pytest.param([DOG, MAN], {"max_regions": 1}, [[DOG], [MAN]], id="one region: not the whole image"),
        pytest.param([DOG, MAN], {"max_regions": 2}, [[DOG, WHOLE], [MAN, WHOLE]], id="two regions: no pairs"),
        pytest.param(
            [DOG, MAN, BALL],
            {"max_regions": 9, "num_things": 2},
            [[DOG, WHOLE], [MAN, WHOLE], [DOG, MAN, WHOLE]],
            id="more regions than things",
        ),
    ],
)
def test_candidate_controls(proposals, selection, expected):
    controls = candidate_controls(proposals, WHOLE, ProposalSelection(**selection))
    assert [[each.regions[0] for each in control.region_sets] for control in controls] == expected
    assert not any(control.ordered for control in controls)


def test_regions_of_a_class_stay_together():
    other = proposal(60, "dog", 0.8)
    [alone, *_] = candidate_controls([DOG, other, MAN], WHOLE, SELECTION)
    assert alone.region_sets == (RegionSet((DOG, other)), RegionSet((WHOLE,)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"num_things": -1}, "got num_things -1, expected", id="fewer than none"),
        pytest.param({"num_things": 9}, "got num_things 9, expected", id="too many combinations"),
        pytest.param({"min_thing_score": 1.5}, "min_thing_score is 1.5", id="a score above 1"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InputError, match=message):
        ProposalSelection(**settings)


@pytest.mark.parametrize(
    ("options", "beam_size"),
    [
        pytest.param({}, MAX_CANDIDATE_BEAM, id="the default"),
        pytest.param({"beam_size": 1}, 1, id="greedy"),
        pytest.param({"n_best": 5}, 5, id="as many captions as are asked for"),
    ],
)
def test_candidates_have_a_narrow_beam(options, beam_size):
    controls = candidate_controls([DOG, MAN], WHOLE, SELECTION)
    request = RegionRequest(controls[0], candidates=controls)
    expanded, narrow = expand_candidates([request, request], CaptionOptions(**options))
    assert [each.control for each in expanded] == [*controls, *controls]
    assert not any(each.candidates for each in expanded)
    assert narrow == CaptionOptions(**{**options, "beam_size": beam_size, "min_fit": 0.0})


def caption(text, log_prob=-5.0):
    return ungrounded_caption(text.split(), log_prob)


def rank(captions, *, image=(0.0, 0.0, 0.0), regions=(), **weights):
    """Texts in the order of their rank, with these probabilities of "dog", "man" and "it"."""
    request = RegionRequest(
        Control((RegionSet((WHOLE,)),)),
        tuple(proposal(20 * place, feature=np.array(each, np.float32)) for place, each in enumerate(regions)),
        image_feature=np.array(image, np.float32),
    )
    ranker = CandidateRanker(SeenWords(("dog", "man", "it")), **weights)
    return [each.text for each in ranker.rank(request, captions)]


@pytest.mark.parametrize(
    ("captions", "seen", "expected"),
    [
        pytest.param([], {}, [], id="no captions"),
        pytest.param(
            [caption("a dog", -2), caption("a man", -1)], {}, ["a man", "a dog"], id="nothing is seen: the most likely"
        ),
        pytest.param(
            [caption("a man", -1), caption("a dog", -2)],
            {"image": (0.5, 0.1, 0.0)},
            ["a dog", "a man"],
            id="a word seen in the image",
        ),
        pytest.param(
            [caption("a man", -1), caption("a dog", -1.5)],
            {"regions": [(0.0, 0.1, 0.0), (0.9, 0.1, 0.0)]},
            ["a dog", "a man"],
            id="a word seen in one region",
        ),
        pytest.param(
            [caption("a man", -1), caption("a dog", -9)],
            {"image": (0.9, 0.0, 0.0)},
            ["a man", "a dog"],
            id="too unlikely a caption",
        ),
        pytest.param(
            [caption("a dog", -1), caption("a dog and a dog", -1.5), caption("a dog and a man", -1.5)],
            {"image": (0.9, 0.2, 0.0)},
            ["a dog and a man", "a dog", "a dog and a dog"],
            id="a word counts once",
        ),
        pytest.param(
            [caption("a dog on it", -1), caption("a dog on a rock", -2)],
            {},
            ["a dog on a rock", "a dog on it"],
            id="pronouns lose",
        ),
        pytest.param(
            [caption("a unicorn", -2), caption("a ghost", -1)],
            {"image": (0.9, 0.9, 0.0)},
            ["a ghost", "a unicorn"],
            id="words that the encoder does not know",
        ),
    ],
)
def test_rank(captions, seen, expected):
    assert rank(captions, **seen) == expected


def test_weights_of_words():
    captions, seen = [caption("a man", -1), caption("a dog", -2)], {"image": (0.5, 0.0, 0.0)}
    assert rank(captions, **seen, image_word_weight=0.0, region_word_weight=0.0) == ["a man", "a dog"]
    assert rank(captions, **seen, image_word_weight=3.0, region_word_weight=0.0) == ["a dog", "a man"]


def test_words_of_distant_proposals_do_not_count():
    """The first 20 proposals do."""
    captions, regions = [caption("a man", -1), caption("a dog", -1.5)], [(0.0, 0.0, 0.0)] * 20
    assert rank(captions, regions=[*regions[1:], (1.0, 0.0, 0.0)]) == ["a dog", "a man"]
    assert rank(captions, regions=[*regions, (1.0, 0.0, 0.0)]) == ["a man", "a dog"]


def test_equal_texts_are_one_caption_the_better_of_them():
    request = RegionRequest(Control((RegionSet((WHOLE,)),)), image_feature=np.zeros(1, np.float32))
    found = [caption("a dog", -3), caption("a man", -2), caption("a dog", -1)]
    assert CandidateRanker(SeenWords(("dog",))).rank(request, found) == [found[2], found[1]]


def test_fits_come_before_the_rank():
    """With ``min_fit``, as among the captions of one control."""
    controls = candidate_controls([DOG, MAN], WHOLE, SELECTION)
    request = RegionRequest(controls[0], candidates=controls, image_feature=np.zeros(1, np.float32))
    found = [
        [replace(caption(text, log_prob), chunks=(GroundedChunk(text, (0, 2), 0, fits),))]
        for text, log_prob, fits in (("a dog", -1, 0.3), ("a man", -3, 0.9), ("a cat", -2, 0.8))
    ]
    ranker = CandidateRanker(SeenWords(("bird",)))
    for options, expected in (({}, "a dog"), ({"min_fit": 0.5}, "a cat")):
        [[best]] = ranker.merge([request], found, CaptionOptions(**options))
        assert best.text == expected


# Captioners ----------------------------------------------------------------------------------------------------------


OPTIONS = CaptionOptions(max_length=4)


def make_ranking_captioner(probabilities, **parts):
    """Captioner whose vision encoder sees ``WORDS`` with these probabilities in every image."""
    vision = ColorVision(FEATURE_SIZE)
    vision.classifier = SeenWords(WORDS, probabilities)
    return make_captioner(vision=vision, **parts)


@pytest.fixture(scope="module")
def photo():
    return paint_quarters(RED, GREEN, GRAY, BLUE)


def candidate_captions(captioner, photo, options):
    """The caption of each candidate control by itself."""
    [request] = encode_requests(captioner.vision, [ImageRequest(photo)], has_sorter=True)
    assert len(request.candidates) == 3 + 3, "three colours: each alone and each pair, with the whole image"
    assert all(len(control.region_sets[-1].regions) == 1 for control in request.candidates)
    return [
        captioner.caption_batch([replace(request, control=control, candidates=())], options)[0][0]
        for control in request.candidates
    ]


def test_the_best_candidate_is_the_caption(photo):
    """Seen words change which candidate is best."""
    chosen = []
    for probabilities in ([0.0] * len(WORDS), *np.eye(len(WORDS), dtype=np.float32).tolist()):
        captioner = make_ranking_captioner(probabilities, seed=4)
        found = candidate_captions(captioner, photo, replace(OPTIONS, beam_size=MAX_CANDIDATE_BEAM))

        def score(each, probabilities=probabilities):
            seen = {word: value for word, value in zip(WORDS, probabilities, strict=True) if word in each.text.split()}
            return each.log_prob + 5 * sum(seen.values())

        best = captioner.caption(photo, options=OPTIONS)
        expected = max(found, key=score)
        assert (best.text, best.control, best.order) == (expected.text, expected.control, expected.order)
        assert not best.control.ordered
        chosen.append(best.text)
    assert len(set(chosen)) > 1


def test_n_best_captions_are_distinct(photo):
    captioner = make_ranking_captioner([0.0] * len(WORDS))
    [found] = captioner.caption_images([ImageRequest(photo)], replace(OPTIONS, n_best=4))
    assert len(found) == len({each.text for each in found}) == 4
    assert [each.log_prob for each in found] == sorted((each.log_prob for each in found), reverse=True)


@pytest.mark.parametrize(
    "parts", [pytest.param({"sorter": None}, id="no sorter"), pytest.param({"selection": 0}, id="no things")]
)
def test_without_a_sorter_or_things_the_best_regions_are_described(photo, parts):
    selection = ProposalSelection(num_things=parts.pop("selection", SELECTION.num_things))
    found = make_ranking_captioner([0.0] * len(WORDS), **parts).caption(photo, selection=selection)
    assert [each.regions[0].class_name for each in found.control.region_sets] == ["red", "green", "blue"]


def test_an_encoder_without_words_cannot_rank(photo):
    vision = ColorVision(FEATURE_SIZE)
    vision.classifier = SeenWords(())
    found = make_captioner(vision=vision).caption(photo)
    assert found == make_captioner().caption(photo)
    assert [each.regions[0].class_name for each in found.control.region_sets] == ["red", "green", "blue"]


def test_a_control_is_captioned_the_same_beside_images_without_one(photo):
    """Their beam is narrower."""
    captioner = make_ranking_captioner([0.0] * len(WORDS))
    options = CaptionOptions(beam_size=8, n_best=1, max_length=12)
    pointed = [
        ImageRequest(photo, Control.from_boxes([box, (x, 0, x + 20, 20)]))
        for x in (0, 20)
        for box in ((0, 0, 20, 20), (20, 0, 40, 20), (0, 0, 20, 10), (20, 10, 40, 20))
    ]
    alone = [captioner.caption_images([request], options)[0][0].text for request in pointed]
    narrow = replace(options, beam_size=MAX_CANDIDATE_BEAM)
    assert alone != [captioner.caption_images([request], narrow)[0][0].text for request in pointed]
    mixed = captioner.caption_images([ImageRequest(photo), *pointed, ImageRequest(photo)], options)
    assert [found[0].text for found in mixed] == [
        best := captioner.caption(photo, options=options).text,
        *alone,
        best,
    ]
