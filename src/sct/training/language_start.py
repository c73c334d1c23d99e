"""A new captioner that speaks already: what another one learned of language, on whatever regions, is taken over."""

from dataclasses import asdict, replace
from pathlib import Path

import torch

from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.model.bundle import Bundle, load_bundle
from sct.model.system import CaptioningSystem

_BY_WORD = ("words.weight", "output.weight", "output.bias")
"""Weights with a row for each word."""


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
    own = captioner.config
    # Where a control is over is seen, or not, with the same weights.
    sizes = replace(teacher.captioner.config, vocabulary_size=own.vocabulary_size, sees_end=own.sees_end)
    if sizes != own:
        theirs, ours = asdict(sizes), asdict(own)
        other = [f"{name} {value} (new: {ours.get(name)})" for name, value in theirs.items() if value != ours.get(name)]
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
