"""A new captioner that speaks already: what another one learned of language, on whatever regions, is taken over."""

from dataclasses import asdict
from pathlib import Path

import torch

from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.model.bundle import Bundle, load_bundle
from sct.model.system import CaptioningSystem

_BY_WORD = ("words.weight", "output.weight", "output.bias")
"""Weights with a row for each word."""
_MAY_DIFFER = ("vocabulary_size", "sees_end")
"""Settings that leave all other weights alike."""


def start_speaking(captioner: CaptioningSystem, vocabulary: Vocabulary, folder: Path) -> int:
    """Let a new captioner speak like that of a bundle; a refusal names the setting, which may stand in a recipe."""
    try:
        return speak_like(captioner, vocabulary, load_bundle(folder))
    except InputError as error:
        raise InputError(f"model.language: {error}") from error


@torch.no_grad()
def speak_like(captioner: CaptioningSystem, vocabulary: Vocabulary, teacher: Bundle) -> int:
    """Take over all weights of a captioner of the same sizes, and the rows of words that both know; count those.

    Words that it does not know keep their fresh weights.
    """
    theirs, ours = asdict(teacher.captioner.config), asdict(captioner.config)
    differing = [name for name, value in theirs.items() if value != ours.get(name) and name not in _MAY_DIFFER]
    if differing:
        other = [f"{name} {theirs[name]} (new: {ours.get(name)})" for name in differing]
        raise InputError(
            f"{teacher.folder} holds a captioner with {', '.join(other)}: wanted one that differs in its words alone"
        )
    shared = [word for word in vocabulary.words if word in teacher.vocabulary.ids]
    here = torch.tensor([vocabulary.ids[word] for word in shared])
    there = torch.tensor([teacher.vocabulary.ids[word] for word in shared])
    learned = teacher.captioner.state_dict()
    for name, weight in captioner.state_dict().items():
        if name in _BY_WORD:
            weight[here] = learned[name][there]
        else:
            weight.copy_(learned[name])
    return len(shared)
