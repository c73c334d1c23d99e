"""Bundles are loaded as they were saved; damaged ones are refused with a one-line error."""

import hashlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import sct
from sct.captioner.bundle import add_sorter, load_bundle, save_bundle
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.language.word_vectors import WordVectors
from sct.models.config import CaptionerConfig
from sct.models.inputs import collate_controls
from sct.models.show_control_tell import build_show_control_tell
from sct.sorting.baselines import ClassOrder
from sct.sorting.sorter import ControlSorter
from sct.vision.layout import LayoutEncoder
from tests import factories
from tests.color_vision import ColorVision

WORDS = Vocabulary.from_counts({"a": 9, "dog": 8, "sleeps": 7})
make_model = partial(factories.make_model, vocabulary_size=len(WORDS), word_size=4, hidden_size=5, attention_size=3)


@pytest.fixture
def bundle(tmp_path):
    save_bundle(tmp_path / "bundle", make_model(), WORDS, provenance={"source": "a test", "epoch": 3})
    return tmp_path / "bundle"


@pytest.mark.parametrize("mode", ["paper", "reference"])
@pytest.mark.parametrize("variant", ["show_control_tell", "single_sentinel", "no_visual_sentinel"])
def test_save_and_load(variant, mode, tmp_path):
    captioner = make_model(variant=variant, mode=mode, image_in_language_lstm=True)
    save_bundle(tmp_path / "deep" / "bundle", captioner, WORDS, provenance={"source": "a test"})
    loaded = load_bundle(tmp_path / "deep" / "bundle")
    assert loaded.model.config == captioner.config
    assert loaded.vocabulary == WORDS
    assert loaded.folder == tmp_path / "deep" / "bundle"
    assert loaded.provenance == {"sct": sct.__version__, "source": "a test"}
    inputs = collate_controls(torch.randn(3, 6), torch.randn(1, 6), [[[0, 1], [2]]])
    tokens, slots = torch.tensor([[2, 4, 5]]), torch.tensor([[0, 0, 1]])
    for ours, theirs in zip(
        captioner.teacher_forced_log_probs(inputs, tokens, slots),
        loaded.model.teacher_forced_log_probs(inputs, tokens, slots),
        strict=True,
    ):
        assert torch.equal(ours, theirs)


def test_loaded_weights_require_gradients(bundle):
    captioner = load_bundle(bundle).model
    assert all(weight.requires_grad and weight.device.type == "cpu" for weight in captioner.parameters())


def test_int8_weights(tmp_path):
    captioner = build_show_control_tell(
        CaptionerConfig(vocabulary_size=len(WORDS), feature_size=64, hidden_size=64, word_size=64)
    )
    save_bundle(tmp_path / "small", captioner, WORDS, precision="int8")
    save_bundle(tmp_path / "large", captioner, WORDS)
    sizes = [(tmp_path / name / "weights.safetensors").stat().st_size for name in ("small", "large")]
    assert sizes[0] < 0.3 * sizes[1]
    loaded = load_bundle(tmp_path / "small").model.state_dict()
    for name, weight in captioner.state_dict().items():
        assert loaded[name].dtype == torch.float32
        torch.testing.assert_close(loaded[name], weight, atol=float(weight.abs().max()) / 200, rtol=1e-3)


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_weights_load_as_float32(precision, bundle):
    captioner, half = make_model(), bundle.with_name("half")
    save_bundle(half, captioner, WORDS, precision=precision)
    on_disk = safetensors.torch.load_file(half / "weights.safetensors")
    assert {weight.dtype for weight in on_disk.values()} == {getattr(torch, precision)}
    loaded = load_bundle(half).model.state_dict()
    for name, weight in captioner.state_dict().items():
        assert loaded[name].dtype == torch.float32
        assert torch.equal(loaded[name], weight.to(getattr(torch, precision)).float())


def test_unlisted_files_are_ignored(bundle):
    (bundle / "MODEL_CARD.md").write_text("A test.")
    assert load_bundle(bundle).provenance["epoch"] == 3


def test_save_refuses_an_existing_folder(bundle):
    before = (bundle / "config.toml").read_bytes()
    with pytest.raises(InputError, match="exists: name a new folder"):
        save_bundle(bundle, make_model(), WORDS)
    assert (bundle / "config.toml").read_bytes() == before


def test_save_refuses_another_vocabulary(tmp_path):
    with pytest.raises(InputError, match="has 5 words, the model expects 7"):
        save_bundle(tmp_path / "bundle", make_model(), Vocabulary.from_counts({"a": 9}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("value", "precision"),
    [pytest.param(float("nan"), "float32", id="NaN"), pytest.param(1e5, "float16", id="too large for the precision")],
)
def test_save_refuses_non_finite_weights(value, precision, tmp_path):
    captioner = make_model()
    with torch.no_grad():
        captioner.vocab_projection.bias[0] = value
    with pytest.raises(
        InputError, match=f"the model in {precision}: weight vocab_projection.bias has values that are not finite"
    ):
        save_bundle(tmp_path / "bundle", captioner, WORDS, precision=precision)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_save_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(weights):
        raise OSError("no space left on device")

    monkeypatch.setattr(safetensors.torch, "save", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_bundle(tmp_path / "bundle", make_model(), WORDS)
    assert not list(tmp_path.iterdir())


def test_save_overwrites_the_rest_of_a_killed_process(tmp_path):
    (tmp_path / ".bundle.part").mkdir()
    (tmp_path / ".bundle.part" / "weights.safetensors").write_text("half of")
    save_bundle(tmp_path / "bundle", make_model(), WORDS)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    assert sorted(path.name for path in (tmp_path / "bundle").iterdir()) == [
        "config.toml",
        "vocabulary.json",
        "weights.safetensors",
    ]


def test_load_refuses_other_paths(tmp_path, bundle):
    with pytest.raises(InputError, match="nowhere does not exist"):
        load_bundle(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"config\.toml is a file"):
        load_bundle(bundle / "config.toml")
    with pytest.raises(InputError, match=r"has no config\.toml"):
        load_bundle(tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        pytest.param('format = "sct bundle"', 'format = "mp3"', "got format 'mp3'", id="foreign"),
        pytest.param('format = "sct bundle"', "", "got format None", id="no format"),
        pytest.param(
            "version = 1",
            "version = 2\nsorter = 5",
            "got version 2 of 'sct bundle', this sct reads version 1: update sct",
            id="newer",
        ),
        pytest.param("version = 1", "version = 0", "got version 0", id="version 0"),
        pytest.param("version = 1", "version = true", "got version True", id="no version number"),
        pytest.param("version = 1", "version = 1\nsorter = 5", "unknown key 'sorter'", id="unknown key"),
        pytest.param("hidden_size = 5", "hidden_size = 5\nlayers = 3", "unknown key 'layers'", id="an unknown setting"),
        pytest.param("hidden_size = 5", "", "'hidden_size' is missing", id="a missing setting"),
        pytest.param("hidden_size = 5", "hidden_size = true", "hidden_size is True, expected int", id="a wrong kind"),
        pytest.param("hidden_size = 5", "hidden_size = 0", "got hidden_size 0", id="no size"),
        pytest.param("hidden_size = 5", "hidden_size = 6", "has shape (20, 15), expected (24, 16)", id="another size"),
        pytest.param(
            'mode = "paper"', 'mode = "poem"', "mode is 'poem', expected paper, reference", id="an unknown mode"
        ),
        pytest.param('mode = "paper"', 'mode = "reference"', "weights.safetensors lacks", id="too few weights"),
        pytest.param(
            'variant = "show_control_tell"',
            'variant = "single_sentinel"',
            "safetensors has chunk_s",
            id="too many weights",
        ),
        pytest.param("vocabulary_size = 7", "vocabulary_size = 8", "has 7 words, the model expects 8", id="words"),
        pytest.param("hidden_size = 5", f"hidden_size = {2**40}", "expected an integer from 1 to 65,536", id="memory"),
        pytest.param("feature_size = 6", f"feature_size = {10**26}", "an integer of 87 bits", id="overflow"),
        pytest.param("hidden_size = 5", f"hidden_size = 0x{'f' * 5000}", "of 20,000 bits", id="a number of no text"),
        pytest.param("hidden_size = 5", "hidden_size = [1]", "hidden_size is [1], expected int", id="a list"),
        pytest.param("[captioner]", "[captioner", "not valid TOML", id="not TOML"),
        pytest.param("version = 1", f"version = {'[' * 20_000}", "is nested too deeply", id="deep"),
        pytest.param("[provenance]", "[provenance]\nscores = [1]", "'scores' = [1], expected text", id="provenance"),
    ],
)
def test_load_refuses_a_changed_config(before, after, message, bundle):
    path = bundle / "config.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(InputError) as error:
        load_bundle(bundle)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(bundle) in str(error.value)


def test_load_refuses_a_truncated_config(bundle):
    path = bundle / "config.toml"
    whole = path.read_bytes()
    for length in range(len(whole) - 1):  # all but the newline at the end
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            load_bundle(bundle)


@pytest.mark.parametrize("name", ["vocabulary.json", "weights.safetensors"])
def test_load_refuses_missing_truncated_and_changed_files(name, bundle):
    path = bundle / name
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:-1], whole + b" ", b"x" + whole[1:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"{name} is damaged .its checksum differs"):
            load_bundle(bundle)
    path.unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        load_bundle(bundle)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            lambda weights: weights.pop("vocab_projection.bias"),
            "lacks vocab_projection.bias, expected",
            id="one missing",
        ),
        pytest.param(lambda weights: weights.update(x=torch.ones(1)), "has x besides the", id="one more"),
        pytest.param(
            lambda weights: weights["vocab_projection.bias"].fill_(float("nan")),
            "weight vocab_projection.bias has values that are not finite",
            id="NaN",
        ),
        pytest.param(
            lambda weights: weights.update({"vocab_projection.bias": torch.ones(7, dtype=torch.int64)}),
            "is a torch.int64, expected a dense float tensor",
            id="whole numbers",
        ),
    ],
)
def test_load_refuses_other_weights_with_the_right_checksum(change, message, bundle):
    path, config = bundle / "weights.safetensors", bundle / "config.toml"
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    weights = safetensors.torch.load_file(path)
    change(weights)
    safetensors.torch.save_file(weights, path)
    config.write_text(config.read_text().replace(checksum, hashlib.sha256(path.read_bytes()).hexdigest()))
    with pytest.raises(InputError) as error:
        load_bundle(bundle)
    assert message in str(error.value)


def test_load_refuses_weights_that_are_not_safetensors(bundle):
    path, config = bundle / "weights.safetensors", bundle / "config.toml"
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(b"not weights")
    config.write_text(config.read_text().replace(checksum, hashlib.sha256(b"not weights").hexdigest()))
    with pytest.raises(InputError, match="is damaged"):
        load_bundle(bundle)


def test_layout_encoder_and_noun_table(tmp_path):
    encoder = LayoutEncoder(("cat", "dog"), 6)
    nouns = NounTable.from_vectors(["dog"], np.ones((1, 3)), "three ones")
    save_bundle(tmp_path / "bundle", make_model(), WORDS, encoder=encoder, nouns=nouns)
    bundle = load_bundle(tmp_path / "bundle")
    assert bundle.encoder is not None
    assert bundle.encoder.class_names == ("cat", "dog")
    assert bundle.nouns is not None
    assert bundle.nouns.nouns == ("dog",)


def test_load_refuses_a_changed_noun_table(tmp_path):
    nouns = NounTable.from_vectors(["dog"], np.ones((1, 3)), "three ones")
    save_bundle(tmp_path / "bundle", make_model(), WORDS, nouns=nouns)
    NounTable.from_vectors(["cat"], np.ones((1, 3)), "three ones").save(tmp_path / "bundle" / "nouns.safetensors")
    with pytest.raises(InputError, match="checksum differs"):
        load_bundle(tmp_path / "bundle")


def test_vision_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.load_vision", ColorVision.load)
    save_bundle(tmp_path / "bundle", make_model(), WORDS, vision=ColorVision(6))
    assert load_bundle(tmp_path / "bundle").vision.feature_size == 6
    assert load_bundle(tmp_path / "bundle").sorter is None
    (tmp_path / "bundle" / "vision.safetensors").write_text("7")
    with pytest.raises(InputError, match=r"vision\.safetensors is damaged .its checksum differs"):
        load_bundle(tmp_path / "bundle")
    (tmp_path / "bundle" / "vision.safetensors").unlink()
    with pytest.raises(InputError, match=r"vision\.safetensors is missing"):
        load_bundle(tmp_path / "bundle")


def test_vision_encoder_is_optional(bundle):
    assert load_bundle(bundle).vision is None


def test_the_default_bundle_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("sct.captioner.bundle.DEFAULT_FOLDER", tmp_path / "nowhere")
    with pytest.raises(InputError, match="the default bundle is missing from this installation"):
        load_bundle(Path("default"))


def test_default_length_penalty_is_the_papers(bundle):
    assert load_bundle(bundle).length_penalty == 0
    assert "[decoding]" not in (bundle / "config.toml").read_text()


@pytest.mark.parametrize("power", [1.0, 0.7, 1e-7])
def test_length_penalty(power, tmp_path):
    save_bundle(tmp_path / "bundle", make_model(), WORDS, length_penalty=power)
    assert load_bundle(tmp_path / "bundle").length_penalty == power
    vectors = WordVectors("one number", {"dog": 0}, np.ones((1, 1), np.float32))
    add_sorter(tmp_path / "bundle", ControlSorter(ClassOrder({"dog": 0.5}), vectors), tmp_path / "sorting")
    sorting = load_bundle(tmp_path / "sorting")
    assert sorting.sorter is not None
    assert sorting.length_penalty == power


def test_length_penalty_may_be_a_whole_number(tmp_path):
    save_bundle(tmp_path / "bundle", make_model(), WORDS, length_penalty=2.0)
    path = tmp_path / "bundle" / "config.toml"
    path.write_text(path.read_text().replace("length_penalty = 2.0", "length_penalty = 2"))
    found = load_bundle(tmp_path / "bundle").length_penalty
    assert (type(found), found) == (float, 2.0)


@pytest.mark.parametrize(
    ("mode", "power", "message"),
    [
        pytest.param("paper", -1.0, "got length_penalty -1.0, expected 0 (off) to 10", id="negative"),
        pytest.param("paper", float("nan"), "got length_penalty nan", id="not a number"),
        pytest.param("paper", float("inf"), "got length_penalty inf", id="infinite"),
        pytest.param("reference", 1.0, "expected 0 in reference mode", id="the authors' search"),
    ],
)
def test_save_refuses_bad_length_penalties(mode, power, message, tmp_path):
    with pytest.raises(InputError) as error:
        save_bundle(tmp_path / "bundle", make_model(mode=mode), WORDS, length_penalty=power)
    assert message in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("mode", "table", "message"),
    [
        pytest.param("paper", "[decoding]", "'length_penalty' is missing", id="empty"),
        pytest.param(
            "paper", "[decoding]\nlength_penalty = -0.5", "got length_penalty -0.5, expected 0 (off)", id="negative"
        ),
        pytest.param("paper", "[decoding]\nlength_penalty = nan", "got length_penalty nan", id="not a number"),
        pytest.param("paper", "[decoding]\nlength_penalty = inf", "got length_penalty inf", id="infinite"),
        pytest.param(
            "paper", f"[decoding]\nlength_penalty = 1{'0' * 400}", "expected 0 (off) to 10", id="past all floats"
        ),
        pytest.param(
            "paper", "[decoding]\nlength_penalty = true", "length_penalty is True, expected a number", id="boolean"
        ),
        pytest.param(
            "paper", "[decoding]\nlength_penalty = '1'", "length_penalty is '1', expected a number", id="text"
        ),
        pytest.param("paper", "[decoding]\nlength_penalty = 1.0\nbeam = 5", "unknown key 'beam'", id="unknown key"),
        pytest.param("paper", "decoding = 1.0", "decoding is 1.0, expected a table", id="no table"),
        pytest.param(
            "reference",
            "[decoding]\nlength_penalty = 1.0",
            "length_penalty is 1.0, expected 0 in reference mode",
            id="the authors'",
        ),
    ],
)
def test_load_refuses_bad_length_penalties(mode, table, message, tmp_path):
    save_bundle(tmp_path / "bundle", make_model(mode=mode), WORDS)
    path = tmp_path / "bundle" / "config.toml"
    path.write_text(path.read_text().replace("[captioner]", f"{table}\n[captioner]"))
    with pytest.raises(InputError) as error:
        load_bundle(tmp_path / "bundle")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_reference_mode_accepts_a_length_penalty_of_0(tmp_path):
    save_bundle(tmp_path / "bundle", make_model(mode="reference"), WORDS)
    path = tmp_path / "bundle" / "config.toml"
    path.write_text(path.read_text().replace("[captioner]", "[decoding]\nlength_penalty = 0.0\n[captioner]"))
    assert load_bundle(tmp_path / "bundle").length_penalty == 0
