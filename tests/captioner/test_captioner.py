"""The public API on a bundle with a small random model: captions, options, errors."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import sct
from sct.captioner.bundle import load_bundle, save_bundle
from sct.captioner.captioner import Captioner
from sct.captioner.collate import collate_requests
from sct.captioner.requests import CaptionOptions, RegionRequest
from sct.decoding import SearchConfig, beam_search
from sct.errors import InputError
from sct.models.inputs import collate_controls
from sct.models.show_control_tell import build_show_control_tell
from sct.regions import Box, Control, Region, RegionSet
from tests.factories import FEATURE_SIZE, LAYOUT_WORDS, make_bundle, make_captioner, make_captioner_parts


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "small"
    return make_bundle(folder, words=LAYOUT_WORDS, std=0.7, vision=None, sorter=None)


@pytest.fixture(scope="module")
def captioner(bundle):
    return sct.load(bundle)


def region(seed):
    feature = np.random.default_rng(seed).normal(size=FEATURE_SIZE).astype(np.float32)
    return Region(Box(seed, 0, seed + 5, 9), feature=feature)


def control(*sizes, ordered=True):
    """Region sets of the given sizes."""
    seeds = iter(range(99))
    return Control(tuple(RegionSet(tuple(region(next(seeds)) for _ in range(size))) for size in sizes), ordered=ordered)


def test_captions_are_grounded(captioner):
    caption = captioner.caption_regions(control(1, 3), options=CaptionOptions(cover=True, max_length=9))
    assert caption.text == " ".join(word.text for word in caption.words)
    assert set(caption.text.split()) <= {*LAYOUT_WORDS, "<unk>"}
    assert [word.region_set for word in caption.words] == sorted(word.region_set for word in caption.words)
    assert {word.region_set for word in caption.words} == {0, 1}, "both sets are described"
    for word in caption.words:
        assert len(word.attention) == (1, 3)[word.region_set]
        assert sum(word.attention) + word.sentinel_weight == pytest.approx(1, abs=1e-5)
        assert 0 <= word.shift_probability <= 1
    assert caption.log_prob < 0
    assert json.loads(json.dumps(caption.as_dict()))["text"] == caption.text


def test_words_in_the_end_slot_are_not_grounded(bundle, tmp_path):
    network = build_show_control_tell(replace(load_bundle(bundle).model.config, end_slot=True))
    network.load_state_dict(load_bundle(bundle).model.state_dict())
    save_bundle(tmp_path / "end slot", network, load_bundle(bundle).vocabulary)
    options = CaptionOptions(cover=True, min_length=8, max_length=9, n_best=5)
    [captions] = sct.load(tmp_path / "end slot").caption_batch([RegionRequest(control(1, 3))], options)
    after = [[word.sentinel_weight == 1 for word in caption.words] for caption in captions]
    assert any(map(any, after)), "some words are generated in the end slot"
    for caption, is_after in zip(captions, after, strict=True):
        assert is_after == sorted(is_after)
        for word in caption.words:
            assert len(word.attention) == (1, 3)[word.region_set]
            assert sum(word.attention) + word.sentinel_weight == pytest.approx(1, abs=1e-5)
        assert all(not any(is_after[slice(*chunk.words)]) for chunk in caption.chunks)


def test_a_batch_equals_single_requests(captioner):
    requests = [
        RegionRequest(control(1)),
        RegionRequest(control(2, 1, 4)),
        RegionRequest(control(1, 1), (region(50),)),
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


def test_banned_and_required_words(captioner):
    options = CaptionOptions(banned_words=("man", "the"), required_words=("horse", "rides"), n_best=3, min_length=4)
    [captions] = captioner.caption_batch([RegionRequest(control(1, 1))], options)
    for caption in captions:
        said = caption.text.split()
        assert {"horse", "rides"} <= set(said)
        assert not {"man", "the"} & set(said)
        assert len(said) >= 3


def test_int8_log_prob_is_close(bundle, captioner):
    small = sct.load(bundle, precision="int8")
    best = captioner.caption_regions(control(2, 1))
    assert small.caption_regions(control(2, 1)).log_prob == pytest.approx(best.log_prob, rel=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(lambda: control(1, 1, ordered=False), "the bundle has no sorter", id="a set without a sorter"),
        pytest.param(lambda: Control.from_boxes([(0, 0, 5, 5)]), "has no feature, expected 6", id="no feature"),
        pytest.param(
            lambda: Control((RegionSet((Region(Box(0, 0, 5, 5), feature=np.zeros(4)),)),)),
            r"\(4,\)",
            id="a short feature",
        ),
        pytest.param(
            lambda: Control((RegionSet((Region(Box(0, 0, 5, 5), feature=np.full(6, 1e300)),)),)),
            "finite",
            id="too large",
        ),
    ],
)
def test_bad_controls_are_refused(captioner, make, message):
    with pytest.raises(InputError, match=message):
        captioner.caption_regions(make())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"banned_words": ("okapi",)}, "'okapi' is not among the 12 words of the vocabulary", id="an unknown word"
        ),
        pytest.param({"cover": True, "max_length": 2}, "region sets", id="too short to cover"),
        pytest.param({"beam_size": 0}, "got beam_size 0", id="no beam"),
        pytest.param({"n_best": 9}, "got n_best 9", id="more than the beam"),
        pytest.param({"length_penalty": float("nan")}, "got length_penalty nan", id="not a number"),
        pytest.param({"length_penalty": -1.0}, "got length_penalty -1.0, expected 0", id="negative"),
        pytest.param({"length_penalty": 60.0}, r"got length_penalty 60.0, expected 0 \(off\) to 10", id="too large"),
        pytest.param(
            {"length_penalty": 1.0, "reference_search": True},
            "has no constraints and no length_penalty",
            id="the authors'",
        ),
    ],
)
def test_bad_options_are_refused(captioner, options, message):
    with pytest.raises(InputError, match=message):
        captioner.caption_regions(control(1, 1), options=CaptionOptions(**options))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        pytest.param({"precision": "float16"}, "use float32 or int8", id="half precision on a CPU"),
        pytest.param({"device": "gpu"}, "device is 'gpu', expected cpu or cuda", id="an unknown device"),
        pytest.param({"device": "meta"}, "device 'meta' is not available", id="a device that holds nothing"),
    ],
)
def test_bad_devices_and_precisions_are_refused(bundle, choices, message):
    with pytest.raises(InputError, match=message):
        sct.load(bundle, **choices)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param("sct.CaptionOptions(max_length=5.5)", "got max_length 5.5, expected an integer", id="half a word"),
        pytest.param(
            "sct.CaptionOptions(beam_size=10**12)", "got beam_size 1000000000000, expected an integer", id="huge beam"
        ),
        pytest.param(
            "sct.CaptionOptions(banned_words='man')", "banned_words is 'man', expected a tuple of words", id="one word"
        ),
        pytest.param("sct.load({bundle!r}, precision='fp16')", "precision is 'fp16', expected float32", id="precision"),
    ],
)
def test_values_of_wrong_type_are_refused(bundle, call, message):
    """In a subprocess, without the run-time type checker of the tests."""
    code = f"import sct\ntry:\n    {call.format(bundle=str(bundle))}\nexcept sct.InputError as error:\n    print(error)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert message in found.stdout


def test_default_bundle(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.DEFAULT_FOLDER", bundle)
    expected = sct.load(bundle).caption_regions(control(1))
    assert [sct.load().caption_regions(control(1)), sct.load("default").caption_regions(control(1))] == [expected] * 2
    monkeypatch.setattr("sct.captioner.bundle.DEFAULT_FOLDER", tmp_path / "nowhere")
    with pytest.raises(
        InputError, match="the default bundle is missing from this installation: install sct again, or name"
    ):
        sct.load()


def test_the_error_names_a_missing_bundle(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        sct.load(tmp_path / "nowhere")


def test_the_package_has_no_other_names():
    with pytest.raises(AttributeError, match="no attribute 'captoiner'"):
        sct.captoiner  # noqa: B018


def test_reference_mode_uses_the_authors_search(tmp_path):
    """Finished beams are not frozen, and zero rows do not count in the mean, as in the released code."""
    parts = make_captioner_parts(5, words=LAYOUT_WORDS, std=0.7, vision=None, sorter=None, mode="reference")
    network, vocabulary = parts["model"], parts["vocabulary"]
    save_bundle(tmp_path / "theirs", network, vocabulary)
    said = sct.load(tmp_path / "theirs").caption_regions(control(2, 1), [region(7), region(8)])
    padded = [region(7), Region(Box(0, 0, 1, 1), feature=np.zeros(FEATURE_SIZE)), region(8)]
    assert sct.load(tmp_path / "theirs").caption_regions(control(2, 1), padded) == said
    features = torch.from_numpy(np.stack([region(seed).feature for seed in range(3)]))
    image = torch.from_numpy(np.stack([region(7).feature, region(8).feature]).mean(0))[None]
    found = beam_search(
        network, network.init_state(collate_controls(features, image, [[[0, 1], [2]]])), SearchConfig.reference()
    )
    assert said.text.split() == vocabulary.decode(found.words[0, 0].tolist())
    assert said.log_prob == pytest.approx(found.scores[0, 0].item(), abs=1e-4)


def test_shared_features_are_collated_once(captioner):
    twice = region(1)
    request = RegionRequest(Control((RegionSet((twice,)), RegionSet((twice, region(2))))), (twice,))
    inputs = collate_requests([request], captioner.config)
    assert len(inputs.regions) == 2
    assert inputs.set_rows[0, :, 0].tolist() == [0, 0]


def test_unk_can_be_banned(captioner):
    [captions] = captioner.caption_batch(
        [RegionRequest(control(1, 2))], CaptionOptions(banned_words=("<unk>",), n_best=5)
    )
    assert all("<unk>" not in caption.text for caption in captions)


@pytest.fixture(scope="module")
def lengthy(bundle):
    """The same bundle with a length penalty."""
    known = load_bundle(bundle)
    folder = bundle.with_name("lengthy")
    save_bundle(folder, known.model, known.vocabulary, length_penalty=1.0)
    return sct.load(folder)


@pytest.mark.parametrize(
    ("own", "asked", "used"),
    [
        pytest.param(0.0, {}, 0.0, id="none"),
        pytest.param(1.0, {}, 1.0, id="the bundle's own"),
        pytest.param(0.0, {"length_penalty": 1.0}, 1.0, id="options"),
        pytest.param(1.0, {"length_penalty": 0.0}, 0.0, id="options switch it off"),
        pytest.param(1.0, {"reference_search": True}, 0.0, id="the authors' search has none"),
    ],
)
def test_length_penalty_of_options_or_else_of_the_bundle(captioner, lengthy, own, asked, used):
    ranked = lengthy if own else captioner
    assert ranked.length_penalty == own
    options = CaptionOptions(no_repeat_ngram_size=0, **asked)
    assert ranked.resolve_length_penalty(options) == used
    said = ranked.caption_regions(control(2, 1), options=options)
    assert said == captioner.caption_regions(control(2, 1), options=replace(options, length_penalty=used))
    if not options.reference_search:
        assert len(said.words) == (20 if used else 0), "without a penalty the empty caption is best"


def test_log_prob_excludes_the_length_penalty(lengthy):
    request, options = RegionRequest(control(2, 1)), CaptionOptions(no_repeat_ngram_size=0)
    decoded = lengthy.search(collate_requests([request], lengthy.config), options)
    [[caption]] = lengthy.caption_batch([request], options)
    assert caption.text.split() == lengthy.vocabulary.decode(decoded.words[0, 0].tolist())
    assert caption.log_prob == pytest.approx(20 * decoded.scores[0, 0].item(), rel=1e-5)


@pytest.mark.parametrize(
    ("mode", "asked", "used"),
    [
        pytest.param("paper", {}, 2, id="default"),
        pytest.param("paper", {"no_repeat_ngram_size": 0}, 0, id="off"),
        pytest.param("paper", {"no_repeat_ngram_size": 1}, 1, id="options"),
        pytest.param("paper", {"reference_search": True}, 0, id="the authors' search has none"),
        pytest.param("reference", {}, 0, id="the authors' weights"),
        pytest.param("reference", {"no_repeat_ngram_size": 2}, 2, id="the authors' weights with options"),
    ],
)
def test_repeated_bigrams_are_forbidden_by_default_as_on_the_command_line(mode, asked, used):
    captioner = make_captioner(words=LAYOUT_WORDS, std=0.7, vision=None, mode=mode)
    options = CaptionOptions(**asked)
    assert captioner.resolve_no_repeat_ngram_size(options) == used
    found = captioner.caption_regions(control(2, 1), options=options)
    assert found == captioner.caption_regions(control(2, 1), options=replace(options, no_repeat_ngram_size=used))
    if not asked:
        assert found == captioner.caption_regions(control(2, 1)), "without options too"


@pytest.mark.parametrize("variant", ["show_control_tell", "up_down"])
def test_padding_and_bos_inside_a_caption_are_no_words(variant):
    """As in ``Vocabulary.decode``, by which rewards, validation and the oracle read captions."""
    parts = make_captioner_parts(words=LAYOUT_WORDS, std=0.7, vision=None, variant=variant)
    size = len(parts["vocabulary"])
    [bias] = [weight for weight in parts["model"].parameters() if weight.shape == (size,)]
    bias[3] -= 9.0  # EOS
    captioner = Captioner(**parts)
    requests = [RegionRequest(control(2, 1)), RegionRequest(control(1)), RegionRequest(control(1, 1, 2))]
    options = CaptionOptions(no_repeat_ngram_size=0, beam_size=2, n_best=2)
    decoded = captioner.search(collate_requests(requests, captioner.config), options)
    ids = decoded.words.flatten(0, 1).tolist()
    assert any({1, 2} & set(each) and {4, 5, 6} & set(each) for each in ids), "the model says them among words"
    captions = [caption for found in captioner.caption_batch(requests, options) for caption in found]
    for caption, each in zip(captions, ids, strict=True):
        assert [word.text for word in caption.words] == captioner.vocabulary.decode(each)


def test_a_caption_is_printed_as_its_text(captioner):
    caption = captioner.caption_regions(control(1, 3), options=CaptionOptions(cover=True, max_length=9))
    assert f"{caption}" == str(caption) == caption.text
    assert repr(caption).startswith(f"GroundedCaption({caption.text!r}, chunks=[(")
    assert len(repr(caption)) < 300


def test_lazy_names_are_listed():
    code = "import sct; print(set(sct.__all__) <= set(dir(sct)), '__version__' in dir(sct))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True True\n"


def test_cuda_graph_searches_are_kept_in_an_lru_cache(bundle):
    captioner = sct.load(bundle)
    first, *others = (SearchConfig(early_stop=False, length_penalty=number / 10) for number in range(20))
    kept = captioner._cuda_graph_search(first)
    for settings in others:
        captioner._cuda_graph_search(settings)
        assert captioner._cuda_graph_search(first) is kept, "most recently used"
    assert captioner._cuda_graph_search(others[0]) is not captioner._cuda_graph_search(others[1])
    assert len(captioner._graph_searches) == 8
