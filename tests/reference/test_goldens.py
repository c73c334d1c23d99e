"""Numbers of the authors' released code, from a checkpoint file to the words of a beam.

``SCT_GOLDENS=FILE.npz pytest tests/reference`` checks any other file of the same format.
"""

import argparse
import functools
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sct.data.features import image_descriptors
from sct.decoding import SearchConfig, beam_search, greedy
from sct.models.import_reference import read_reference
from sct.models.inputs import ControlBatch
from sct.models.registry import build_from_state_dict
from sct.models.show_control_tell import ShowControlTell, TeacherForcedLogProbs

GOLDENS = Path(os.environ.get("SCT_GOLDENS") or Path(__file__).parents[1] / "golden" / "goldens.npz")
VARIANTS = {
    "ours": "show_control_tell",
    "no_visual_sentinel": "no_visual_sentinel",
    "single_sentinel": "single_sentinel",
}
"""Names in the file -> variants."""
GOLDEN_NAMES = [name + image for name in VARIANTS for image in ("", "_img2")]
MAX_ERROR = 1e-5


@dataclass(frozen=True)
class Golden:
    """Recorded inputs of one variant, and the model with its weights."""

    variant: str
    captioner: ShowControlTell
    at_training: ControlBatch
    at_test: ControlBatch
    captions: torch.Tensor
    gates: torch.Tensor
    num_steps: int

    def recorded(self, name: str) -> np.ndarray:
        return goldens()[f"{self.variant}/{name}"]


@functools.cache
def goldens() -> dict[str, np.ndarray]:
    with np.load(GOLDENS) as file:
        return {name: file[name] for name in file.files if not name.startswith(("sinkhorn/", "align/"))}


@pytest.fixture(scope="module", params=GOLDEN_NAMES)
def golden(request, tmp_path_factory) -> Golden:
    """Weights of a variant, through a checkpoint file like the authors'."""
    variant, file = request.param, goldens()
    prefix = f"{variant}/weights/"
    weights = {name.removeprefix(prefix): torch.tensor(file[name]) for name in file if name.startswith(prefix)}
    assert weights, f"{GOLDENS} has no weights of {variant}"
    path = tmp_path_factory.mktemp("goldens") / f"{variant}.pth"
    options = argparse.Namespace(h2_first_lstm=True, img_second_lstm=variant.endswith("_img2"))
    torch.save({"state_dict": weights, "opt": options, "epoch": 1, "val_cider": np.float64(1.0), "optimizer": {}}, path)
    read = read_reference(path)
    sizes = ("vocabulary_size", "feature_size", "word_size", "hidden_size", "attention_size")
    assert [getattr(read.config, size) for size in sizes] == file["dims"][:5].tolist()
    assert read.config.variant == VARIANTS[variant.removesuffix("_img2")]
    assert read.config.image_in_language_lstm == variant.endswith("_img2")

    num_examples, num_steps = file["captions"].shape
    return Golden(
        variant=variant,
        captioner=build_from_state_dict(read.config, read.weights),
        at_training=control_inputs(file["ctrl_train"], np.full(num_examples, num_steps)),
        at_test=control_inputs(file["ctrl_test"], file["n_sets"]),
        captions=torch.tensor(file["captions"]),
        gates=torch.tensor(file["gates"]),
        num_steps=num_steps,
    )


def control_inputs(control: np.ndarray, num_slots: np.ndarray) -> ControlBatch:
    """Batch of arrays padded with rows of zeros, which the authors' code also recognises by their sum."""
    detections = torch.tensor(goldens()["detections"])
    num_examples, num_detections, num_features = detections.shape
    offsets = np.arange(num_examples + 1) * num_detections
    image = image_descriptors(detections.reshape(-1, num_features), offsets, (detections.sum(-1) != 0).flatten())
    regions = torch.tensor(control)
    rows = torch.arange(regions[..., 0].numel()).reshape(regions.shape[:3])
    return ControlBatch(
        regions.reshape(-1, num_features), image, rows, regions.sum(-1) != 0, torch.tensor(num_slots, dtype=torch.long)
    )


@torch.no_grad()
def forced_log_probs(golden: Golden) -> TeacherForcedLogProbs:
    slots = torch.arange(golden.num_steps).expand(len(golden.captions), -1)
    return golden.captioner.teacher_forced_log_probs(golden.at_training, golden.captions, slots)


def assert_close(golden: Golden, name: str, ours: torch.Tensor) -> None:
    theirs = golden.recorded(name)
    assert tuple(ours.shape) == theirs.shape, f"{golden.variant}/{name}: shape {tuple(ours.shape)}, not {theirs.shape}"
    errors = np.abs(ours.double().numpy() - theirs)
    worst = [int(index) for index in np.unravel_index(errors.argmax(), errors.shape)]
    message = f"{golden.variant}/{name} is off by {errors.max():.2e} (allowed {MAX_ERROR:.0e}), worst at {worst}"
    assert errors.max() <= MAX_ERROR, message
    print(f"{golden.variant}/{name}: largest error {errors.max():.1e} over {errors.size:,} values")


def assert_same(golden: Golden, name: str, ours: torch.Tensor) -> None:
    theirs = golden.recorded(name)
    assert tuple(ours.shape) == theirs.shape, f"{golden.variant}/{name}: shape {tuple(ours.shape)}, not {theirs.shape}"
    different = np.argwhere(ours.numpy() != theirs)
    message = f"{golden.variant}/{name}: {len(different)} of {theirs.size} differ, the first (example, step): "
    assert not len(different), message + str(different[0].tolist())
    print(f"{golden.variant}/{name}: all {theirs.size:,} the same")


def test_teacher_forced_log_probabilities(golden):
    ours = forced_log_probs(golden)
    assert_close(golden, "word_logp", ours.word_log_probs)
    assert_close(golden, "gate_logp", ours.shift_log_probs)


def test_losses(golden):
    """Padding words count, gates of -1 do not; a gate weighs four times a word (point 26)."""
    ours = forced_log_probs(golden)
    nll = torch.nn.functional.nll_loss
    words = nll(ours.word_log_probs[:, :-1].flatten(0, 1), golden.captions[:, 1:].flatten())
    gates = nll(ours.shift_log_probs.flatten(0, 1), golden.gates.flatten(), ignore_index=-1)
    losses = torch.stack([words, gates, words + 4 * gates])
    assert_close(golden, "loss", losses)


def test_greedy_words_and_gates(golden):
    settings = replace(SearchConfig.reference(), max_length=golden.num_steps)
    with torch.no_grad():
        ours = greedy(golden.captioner, golden.captioner.init_state(golden.at_test), settings)
    assert_same(golden, "greedy_words", ours.words[:, 0])
    assert_same(golden, "greedy_gates", ours.shifts[:, 0])


def test_beam_of_5(golden):
    settings = replace(SearchConfig.reference(), max_length=golden.num_steps)
    with torch.no_grad():
        ours = beam_search(golden.captioner, golden.captioner.init_state(golden.at_test), settings)
    assert_same(golden, "beam_words", ours.words[:, 0])
    assert_same(golden, "beam_gates", ours.shifts[:, 0])
    assert_close(golden, "beam_word_logp", ours.word_log_probs[:, 0])
    assert_close(golden, "beam_gate_logp", ours.shift_log_probs[:, 0])
