"""Distillation: soft targets from trained captioners."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from sct.captioner.bundle import Bundle, load_bundle
from sct.errors import InputError
from sct.models.config import PAPER_VARIANTS
from sct.models.show_control_tell import ShowControlTell
from sct.models.teacher_forcing import teacher_forced_log_probs
from sct.training.captioner.dataloader import Batch
from sct.training.captioner.losses import SoftTargets

_MUST_MATCH = ("feature_size", "mode", "end_slot")
"""Config fields that determine what a model attends to at each step."""


def load_teacher(folder: Path, student: Bundle, device: torch.device) -> ShowControlTell:
    """Load a trained captioner with the student's vocabulary and features, frozen, in eval mode."""
    try:
        bundle = load_bundle(folder)
    except InputError as error:
        raise InputError(f"objective.teachers: {error}") from error
    own, learned = bundle.model.config, student.model.config
    if not (isinstance(bundle.model, ShowControlTell) and isinstance(student.model, ShowControlTell)):
        raise InputError(
            f"objective.teachers: {folder} holds variant {own.variant!r} and the student is {learned.variant!r}: "
            f"expected both to be one of {', '.join(PAPER_VARIANTS)}"
        )
    if bundle.vocabulary.words != student.vocabulary.words:
        raise InputError(
            f"objective.teachers: the vocabulary of {folder} ({len(bundle.vocabulary):,} words) is not the student's "
            f"({len(student.vocabulary):,} words): expected the same vocabulary"
        )
    if any(getattr(own, name) != getattr(learned, name) for name in _MUST_MATCH):
        got, expected = (", ".join(f"{name} {getattr(each, name)}" for name in _MUST_MATCH) for each in (own, learned))
        raise InputError(f"objective.teachers: {folder} has {got}: expected {expected}, as the student")
    return bundle.model.to(device).eval().requires_grad_(False)


@torch.no_grad()
def mean_soft_targets(teachers: Sequence[ShowControlTell], batch: Batch, weight: float) -> SoftTargets:
    """Arithmetic mean of the teachers' word and shift probabilities along the captions of a batch.

    Not the geometric mean: a word that one teacher is sure of stays likely.
    """
    sums: list[Tensor] = []
    for teacher in teachers:
        output = teacher_forced_log_probs(teacher, batch.controls, batch.words, batch.slots)
        probs = [log_probs.exp() for log_probs in output]
        # Accumulated, because the distributions of all teachers together take much memory.
        sums = [total.add_(more) for total, more in zip(sums, probs, strict=True)] if sums else probs
    word_probs, shift_probs = (total.div_(len(teachers)) for total in sums)
    return SoftTargets(word_probs, shift_probs, weight)
