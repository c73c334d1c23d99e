"""ONNX Runtime computes what PyTorch does, and a caption loop around it gives the captioner's captions."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import sct
from sct.captioner.bundle import load_bundle
from sct.captioner.collate import collate_requests
from sct.captioner.encode import encode_requests
from sct.captioner.export_onnx import DECODER, DECODER_MODEL, METADATA, VISION, DecoderModule, VisionModule, export_onnx
from sct.captioner.requests import CaptionOptions, ImageRequest
from sct.errors import InputError
from sct.regions.images import load_image
from sct.regions.records import Control
from sct.vision.preprocess import preprocess
from tests.factories import make_bundle

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

PHOTO = Path(__file__).parents[2] / "examples" / "photos" / "otters.jpg"
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    # In a process of its own: the shape checker of the tests does not know the symbolic sizes of the exporter.
    folder = tmp_path_factory.mktemp("onnx") / "default"
    command = [sys.executable, "-m", "sct", "export-onnx", "default", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == [
        str(folder / name) for name in (DECODER, METADATA, VISION)
    ]
    return folder


@pytest.fixture(scope="module")
def bundle():
    return load_bundle(Path("default"))


def open_session(file):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def decoder(exported):
    return open_session(exported / DECODER)


def compare(session, module, inputs):
    """Assert that all outputs are equal within the tolerance."""
    with torch.no_grad():
        expected = module(*(torch.from_numpy(values) for values in inputs.values()))
    for ours, theirs in zip(session.run(None, inputs), expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), atol=TOLERANCE, rtol=0)


def decoder_inputs(config, rows, members, seed=0):
    rng = np.random.default_rng(seed)
    mask = rng.random((rows, members)) < 0.7
    mask[:, 0] = True
    mask[-1] = False  # the end slot: an empty region set

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "tokens": rng.integers(0, config.vocabulary_size, rows),
        "regions": draw(rows, members, config.feature_size),
        "region_mask": mask,
        "image": draw(rows, config.feature_size),
        **{name: np.tanh(draw(rows, config.hidden_size)) for name in DECODER_MODEL.inputs[4:]},
    }


@pytest.mark.parametrize(("num_images", "num_boxes"), [(1, 1), (3, 7)])
def test_vision_encoder(exported, bundle, num_images, num_boxes):
    rng = np.random.default_rng(1)
    pixels = preprocess([load_image(PHOTO)] * num_images, bundle.vision.image_size).numpy()
    boxes = np.sort(rng.random((num_images, num_boxes, 4)).astype(np.float32))
    module = VisionModule(bundle.vision.network)
    compare(open_session(exported / VISION), module, {"pixels": pixels, "boxes": boxes})


@pytest.mark.parametrize(("rows", "members"), [(1, 1), (2, 3), (5, 1), (7, 4)])
def test_decoder_step(decoder, bundle, rows, members):
    inputs = decoder_inputs(bundle.model.config, rows, members)
    compare(decoder, DecoderModule(bundle.model), inputs)


@pytest.mark.parametrize("config", [{"mode": "reference"}, {"variant": "no_visual_sentinel"}, {"end_slot": True}])
def test_decoder_of_other_configs(config, tmp_path):
    folder = make_bundle(tmp_path / "bundle", vision=None, sorter=None, **config)
    assert [file.name for file in export_onnx(folder, tmp_path / "onnx")] == [DECODER, METADATA]
    model = load_bundle(folder).model
    inputs = decoder_inputs(model.config, 3, 2)
    inputs["region_mask"][-1] = True
    compare(open_session(tmp_path / "onnx" / DECODER), DecoderModule(model), inputs)


def test_a_greedy_caption_equals_the_captioner_s(exported, decoder):
    """The loop of docs/onnx.md, on features of the captioner's own encoder."""
    captioner = sct.load()
    control = Control.from_boxes([(20, 30, 300, 310), (100, 200, 400, 330)])
    options = CaptionOptions(beam_size=1, length_penalty=0.0, no_repeat_ngram_size=0, whole_chunks=False)
    [request] = encode_requests(captioner.vision, [ImageRequest(PHOTO, control)], has_sorter=True)
    [[expected]] = captioner.caption_batch([request], options)
    batch = collate_requests([request], captioner.config)
    metadata = json.loads((exported / METADATA).read_text(encoding="utf-8"))
    sets = [batch.regions[batch.set_rows[0, slot, :1]].numpy()[None] for slot in range(2)]
    masks = [np.ones((1, 1), np.bool_)] * 2
    if metadata["end_slot"]:
        sets, masks = [*sets, np.zeros_like(sets[0])], [*masks, np.zeros((1, 1), np.bool_)]
    state = [np.zeros((1, metadata["hidden_size"]), np.float32) for _ in range(4)]
    words, token, pointer = [], metadata["bos"], 0
    for _ in range(metadata["max_length"]):
        inputs = [np.array([token]), sets[pointer], masks[pointer], batch.image.numpy(), *state]
        word_log_probs, shift_log_probs, _, *state = decoder.run(
            None, dict(zip(DECODER_MODEL.inputs, inputs, strict=True))
        )
        token = int(word_log_probs.argmax())
        if token == metadata["eos"]:
            break
        words.append(metadata["words"][token])
        pointer = min(pointer + int(shift_log_probs.argmax()), len(sets) - 1)
    assert " ".join(words) == expected.text


def test_refusals(tmp_path, monkeypatch):
    folder = make_bundle(tmp_path / "bundle", vision=None, sorter=None, variant="up_down")
    with pytest.raises(InputError, match="variant 'up_down', expected the paper's model"):
        export_onnx(folder, tmp_path / "onnx")
    with pytest.raises(InputError, match="exists: name a new folder"):
        export_onnx(folder, tmp_path)
    assert not (tmp_path / "onnx").exists()
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"show-control-and-tell\[onnx\]"):
        export_onnx(folder, tmp_path / "onnx")
