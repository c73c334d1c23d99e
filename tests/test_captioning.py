"""The public face on a bundle of a small untrained network: records, options, refusals."""

import json

import numpy as np
import pytest
import torch

import sct
from sct.captioning import CaptionOptions, CaptionRequest
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.model.bundle import save_bundle
from sct.model.captioner import Captioner as CaptionNetwork
from sct.model.config import CaptionerConfig
from sct.regions import Box, Control, Region, RegionSet

FEATURES = 6
WORDS = ("a", "the", "man", "horse", "dog", "rides", "on", "with")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    vocabulary = Vocabulary.of_counts({word: 50 - place for place, word in enumerate(WORDS)})
    torch.manual_seed(3)
    network = CaptionNetwork(
        CaptionerConfig(
            vocabulary_size=len(vocabulary), feature_size=FEATURES, word_size=5, hidden_size=7, attention_size=4
        )
    )
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    folder = tmp_path_factory.mktemp("bundle") / "small"
    save_bundle(folder, network, vocabulary)
    return folder


@pytest.fixture(scope="module")
def captioner(bundle):
    return sct.load(bundle)


def region(seed):
    feature = np.random.default_rng(seed).normal(size=FEATURES).astype(np.float32)
    return Region(Box(seed, 0, seed + 5, 9), feature=feature)


def control(*sizes, ordered=True):
    """Region sets of the given sizes."""
    seeds = iter(range(99))
    return Control(tuple(RegionSet(tuple(region(next(seeds)) for _ in range(size))) for size in sizes), ordered=ordered)


def test_says_a_grounded_caption(captioner):
    caption = captioner.caption_regions(control(1, 3), options=CaptionOptions(cover=True, max_length=9))
    assert caption.text == " ".join(word.text for word in caption.words)
    assert set(caption.text.split()) <= {*WORDS, "<unk>"}
    assert [word.region_set for word in caption.words] == sorted(word.region_set for word in caption.words)
    assert {word.region_set for word in caption.words} == {0, 1}, "both sets are talked about"
    for word in caption.words:
        assert len(word.attention) == (1, 3)[word.region_set]
        assert sum(word.attention) + word.sentinel_weight == pytest.approx(1, abs=1e-5)
        assert 0 <= word.shift_probability <= 1
    assert caption.log_prob < 0
    assert json.loads(json.dumps(caption.as_dict()))["text"] == caption.text


def test_a_caption_in_a_batch_is_the_caption_alone(captioner):
    requests = [
        CaptionRequest(control(1)),
        CaptionRequest(control(2, 1, 4)),
        CaptionRequest(control(1, 1), (region(50),)),
    ]
    options = CaptionOptions(n_best=3)
    together = captioner.caption_batch(requests, options)
    for request, captions in zip(requests, together, strict=True):
        [alone] = captioner.caption_batch([request], options)
        assert [caption.text for caption in captions] == [caption.text for caption in alone]
        assert [caption.log_prob for caption in captions] == pytest.approx(
            [caption.log_prob for caption in alone], abs=1e-4
        )
        assert sorted((caption.log_prob for caption in captions), reverse=True) == [c.log_prob for c in captions]
    assert captioner.caption_batch([], options) == []


def test_words_can_be_banned_and_required(captioner):
    options = CaptionOptions(banned=("man", "the"), required=("horse", "rides"), n_best=3, min_length=4)
    [captions] = captioner.caption_batch([CaptionRequest(control(1, 1))], options)
    for caption in captions:
        said = caption.text.split()
        assert {"horse", "rides"} <= set(said)
        assert not {"man", "the"} & set(said)
        assert len(said) >= 3


def test_int8_says_nearly_the_same(bundle, captioner):
    small = sct.load(bundle, precision="int8")
    best = captioner.caption_regions(control(2, 1))
    assert small.caption_regions(control(2, 1)).log_prob == pytest.approx(best.log_prob, rel=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: control(1, ordered=False), "no sorter is at hand", id="a set"),
        pytest.param(lambda: Control.of_boxes([(0, 0, 5, 5)]), "has no feature: wanted 6", id="no feature"),
        pytest.param(
            lambda: Control((RegionSet((Region(Box(0, 0, 5, 5), feature=np.zeros(4)),)),)),
            r"\(4,\)",
            id="a short feature",
        ),
        pytest.param(
            lambda: Control((RegionSet((Region(Box(0, 0, 5, 5), feature=np.full(6, np.nan)),)),)), "finite", id="NaN"
        ),
    ],
)
def test_refuses_a_control_it_cannot_use(captioner, make, message):
    with pytest.raises(InputError, match=message):
        captioner.caption_regions(make())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"banned": ("okapi",)}, "'okapi' is not in the vocabulary", id="an unknown word"),
        pytest.param({"cover": True, "max_length": 2}, "region sets", id="too short to cover"),
        pytest.param({"beam_size": 0}, "beam_size is 0", id="no beam"),
        pytest.param({"n_best": 9}, "n_best is 9", id="more than a beam holds"),
    ],
)
def test_refuses_options_that_clash(captioner, options, message):
    with pytest.raises(InputError, match=message):
        captioner.caption_regions(control(1, 1), options=CaptionOptions(**options))


def test_refuses_a_precision_that_does_not_fit_the_device(bundle):
    with pytest.raises(InputError, match="wanted float32 or int8"):
        sct.load(bundle, precision="float16")


def test_a_missing_bundle_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        sct.load(tmp_path / "nowhere")


def test_the_face_has_no_other_names():
    with pytest.raises(AttributeError, match="no attribute 'captoiner'"):
        sct.captoiner  # noqa: B018
