"""The product path with a transformer: bundles, captions of regions and images, int8, the HTTP API."""

import json

import numpy as np
import pytest
import torch

import sct
from sct.captioner.bundle import load_bundle
from sct.captioner.captioner import Captioner
from sct.captioner.requests import CaptionOptions, RegionRequest
from sct.errors import InputError
from sct.models.linear import check_int8
from sct.models.transformer.model import TransformerCaptioner
from sct.regions import Box, Control, Region, RegionSet
from tests.color_vision import paint_quarters
from tests.factories import (
    BLUE,
    FEATURE_SIZE,
    GRAY,
    GREEN,
    LAYOUT_WORDS,
    RED,
    make_bundle,
    make_captioner,
    make_vision_encoder,
)

LEFT, RIGHT = (0, 0, 20, 20), (20, 0, 40, 20)
SIZES = {"variant": "transformer", "words": LAYOUT_WORDS, "std": 0.5, "vision": None, "sorter": None, "end_slot": True}


def region(seed: int) -> Region:
    feature = np.random.default_rng(seed).normal(size=FEATURE_SIZE).astype(np.float32)
    return Region(Box(seed, 0, seed + 5, 9), feature=feature)


CONTROL = Control((RegionSet((region(0),)), RegionSet((region(1), region(2), region(3)))), ordered=True)


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16", "int8"])
def test_bundles_keep_the_model(tmp_path, precision):
    folder = make_bundle(tmp_path / "bundle", precision=precision, **SIZES)
    bundle = load_bundle(folder)
    assert isinstance(bundle.model, TransformerCaptioner)
    assert bundle.model.config.num_heads == 2
    assert sct.load(folder).caption_regions(CONTROL, options=CaptionOptions(cover=True)).words


@pytest.mark.parametrize("null_token", [True, False])
@pytest.mark.parametrize("gate_input", ["word", "state"])
def test_captions_are_grounded(tmp_path, null_token, gate_input):
    captioner = sct.load(make_bundle(tmp_path / "bundle", null_token=null_token, gate_input=gate_input, **SIZES))
    options = CaptionOptions(cover=True, max_length=9, n_best=3)
    [captions] = captioner.caption_batch([RegionRequest(CONTROL)], options)
    for caption in captions:
        assert {word.region_set for word in caption.words} == {0, 1}, "both sets are described"
        assert [word.region_set for word in caption.words] == sorted(word.region_set for word in caption.words)
        for word in caption.words:
            assert len(word.attention) == (1, 3)[word.region_set]
            assert 0 <= word.shift_probability <= 1
            if null_token:
                assert sum(word.attention) + word.sentinel_weight == pytest.approx(1, abs=1e-5)
        assert json.loads(json.dumps(caption.as_dict()))["text"] == caption.text


def test_the_authors_search_reports_the_gate_of_a_second_pass():
    captioner = make_captioner(variant="transformer", sorter=None, vision=None)
    caption = captioner.caption_regions(CONTROL, options=CaptionOptions(reference_search=True, no_repeat_ngram_size=0))
    assert all(0 < word.shift_probability < 1 for word in caption.words)


def test_int8_captions(tmp_path):
    try:
        check_int8()
    except InputError as error:
        pytest.skip(str(error))
    folder = make_bundle(tmp_path / "bundle", **SIZES)
    options = CaptionOptions(cover=True, max_length=8)
    dense, int8 = (
        sct.load(folder, precision=precision).caption_regions(CONTROL, options=options)
        for precision in ("float32", "int8")
    )
    assert int8.words
    assert int8.log_prob == pytest.approx(dense.log_prob, abs=1.0)


@pytest.mark.parametrize("ordered", [True, False], ids=["sequence", "set"])
def test_captions_of_images(ordered):
    captioner = make_captioner(variant="transformer", std=0.5)
    photo = paint_quarters(RED, GREEN, GRAY, BLUE)
    caption = captioner.caption(photo, [LEFT, RIGHT], ordered=ordered, options=CaptionOptions(cover=True))
    assert {word.region_set for word in caption.words} == {0, 1}


def test_a_bundle_with_a_vision_encoder_captions_an_image(tmp_path):
    folder = make_bundle(
        tmp_path / "bundle", **(SIZES | {"vision": make_vision_encoder(), "feature_size": 16}), provenance={"seed": 1}
    )
    photo = np.random.default_rng(1).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    options = CaptionOptions(cover=True)
    assert sct.load(folder).caption(photo, [(5, 5, 40, 50), (30, 10, 70, 50)], options=options).words


def test_the_http_api_returns_the_librarys_captions():
    helpers = pytest.importorskip("tests.serving.helpers")
    captioner: Captioner = make_captioner(variant="transformer", std=0.5)
    photo = helpers.photo()
    with helpers.open_app(captioner) as client:
        response = client.upload("/v1/caption", photo, {"control": [[LEFT], [RIGHT]]})
    assert response.status_code == 200, response.text
    assert response.json()["captions"][0]["text"] == captioner.caption(photo, [LEFT, RIGHT]).text


def test_a_batch_equals_single_requests():
    captioner = make_captioner(variant="transformer", sorter=None, vision=None, std=0.5)
    requests = [RegionRequest(CONTROL), RegionRequest(Control(CONTROL.region_sets[:1], ordered=True))]
    together = captioner.caption_batch(requests)
    alone = [captioner.caption_batch([request])[0] for request in requests]
    assert [[caption.text for caption in captions] for captions in together] == [
        [caption.text for caption in captions] for captions in alone
    ]
    assert torch.allclose(torch.tensor(together[0][0].log_prob), torch.tensor(alone[0][0].log_prob), atol=1e-4)
