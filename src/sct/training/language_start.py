"""A new captioner that speaks already: what another one learned of language, on whatever regions, is taken over."""

from dataclasses import asdict, replace

import torch

from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.model.bundle import Bundle
from sct.model.system import CaptioningSystem


@torch.no_grad()
def speak_like(captioner: CaptioningSystem, vocabulary: Vocabulary, teacher: Bundle) -> int:
    """Take over all weights of a captioner of the same sizes, and the rows of words that both know; count those.

    Words that it does not know keep their fresh weights.
    """
    sizes = replace(teacher.captioner.config, vocabulary_size=captioner.config.vocabulary_size)
    if sizes != captioner.config:
        theirs, ours = asdict(sizes), asdict(captioner.config)
        other = [f"{name} {value} (new: {ours.get(name)})" for name, value in theirs.items() if value != ours.get(name)]
        raise InputError(
            f"{teacher.folder} holds a captioner with {', '.join(other)}: wanted one that differs in its words alone"
        )
    shared = [word for word in vocabulary.words if word in teacher.vocabulary.ids]
    here = torch.tensor([vocabulary.ids[word] for word in shared])
    there = torch.tensor([teacher.vocabulary.ids[word] for word in shared])
    learned = teacher.captioner.state_dict()
    for name, weight in captioner.state_dict().items():
        if len(weight) == len(vocabulary) and len(learned[name]) == len(teacher.vocabulary):
            weight[here] = learned[name][there]
        else:
            weight.copy_(learned[name])
    return len(shared)
