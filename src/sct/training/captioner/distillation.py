"""Trained captioners that another learns from: what they would say along its captions."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from sct.captioner.bundle import Bundle, load_bundle
from sct.errors import InputError
from sct.models.config import OURS
from sct.models.fast_cell import teacher_forced_log_probs
from sct.models.show_control_tell import ShowControlTell
from sct.training.captioner.dataloader import Batch
from sct.training.captioner.losses import SoftTargets

_ALIKE = ("feature_size", "mode", "end_slot")
"""What decides on which regions a captioner looks at, and when."""


def load_teacher(folder: Path, student: Bundle, device: torch.device) -> ShowControlTell:
    """A trained captioner that can say of the student's words, on the student's features, what it thinks of them."""
    try:
        bundle = load_bundle(folder)
    except InputError as error:
        raise InputError(f"objective.teachers: {error}") from error
    own, learned = bundle.captioner.config, student.captioner.config
    if not (isinstance(bundle.captioner, ShowControlTell) and isinstance(student.captioner, ShowControlTell)):
        raise InputError(
            f"objective.teachers: {folder} holds a captioner of the variant {own.variant!r}, and {learned.variant!r} "
            f"is to learn: both may be {', '.join(OURS)} and no others"
        )
    if bundle.vocabulary.words != student.vocabulary.words:
        raise InputError(
            f"objective.teachers: {folder} knows {len(bundle.vocabulary):,} words, and the captioner that learns "
            f"{len(student.vocabulary):,}, which are not the same: expected one of the same vocabulary"
        )
    if any(getattr(own, name) != getattr(learned, name) for name in _ALIKE):
        theirs, ours = (", ".join(f"{name} {getattr(each, name)}" for name in _ALIKE) for each in (own, learned))
        raise InputError(
            f"objective.teachers: {folder} has {theirs}, and the captioner that learns {ours}: expected the same"
        )
    return bundle.captioner.to(device).eval().requires_grad_(False)


@torch.no_grad()
def mean_of_teachers(teachers: Sequence[ShowControlTell], batch: Batch, weight: float) -> SoftTargets:
    """What at least one teacher gives words and shifts along a batch's captions: the mean of their probabilities.

    Not of their logarithms: a word that one of them is sure of stays likely, whatever the others think of it.
    """
    sums: list[Tensor] = []
    for teacher in teachers:
        thought = teacher_forced_log_probs(teacher, batch.inputs, batch.words, batch.slots)
        probs = [log_probs.exp() for log_probs in thought]
        # Added up one by one: all words of all teachers side by side take much memory.
        sums = [total.add_(more) for total, more in zip(sums, probs, strict=True)] if sums else probs
    word_probs, shift_probs = (total.div_(len(teachers)) for total in sums)
    return SoftTargets(word_probs, shift_probs, weight)
