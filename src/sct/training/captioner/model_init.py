"""A new captioner that speaks already: what another one learned of language, on whatever regions, is taken over.

A captioner to begin with: configured by a recipe and, where it speaks in what a dataset has, by the dataset.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.captioner.bundle import Bundle, load_bundle
from sct.data.corpus_words import slot_words, tag_sequences, word_tags
from sct.data.dataset import Dataset
from sct.data.table import NO_CLASS, Table
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.models.baselines.ag_cvae import AgCvae
from sct.models.baselines.neural_baby_talk import BabyTalk
from sct.models.config import OURS
from sct.models.interface import CaptionModel
from sct.models.registry import build_model, model_spec
from sct.training.captioner.config import ModelSettings

_BY_WORD = ("words.weight", "output.weight", "output.bias")
"""Weights with a row for each word."""
_MAY_DIFFER = ("vocabulary_size", "end_slot")
"""Settings that leave all other weights alike."""


def start_speaking(captioner: CaptionModel, vocabulary: Vocabulary, folder: Path) -> int:
    """Let a new captioner speak like that of a bundle; a refusal names the setting, which may stand in a recipe."""
    try:
        return speak_like(captioner, vocabulary, load_bundle(folder))
    except InputError as error:
        raise InputError(f"model.language: {error}") from error


@torch.no_grad()
def speak_like(captioner: CaptionModel, vocabulary: Vocabulary, teacher: Bundle) -> int:
    """Take over all weights of a captioner of the same sizes, and the rows of words that both know; count those.

    Words that it does not know keep their fresh weights.
    """
    theirs, ours = asdict(teacher.captioner.config), asdict(captioner.config)
    differing = [name for name, value in theirs.items() if value != ours.get(name) and name not in _MAY_DIFFER]
    if differing:
        other = [f"{name} {theirs[name]} (new: {ours.get(name)})" for name in differing]
        raise InputError(
            f"{teacher.folder} holds a captioner with {', '.join(other)}: expected one that differs in its words alone"
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


logger = logging.getLogger(__name__)

_REGIONS_TO_LEARN_CLASSES_FROM = 50_000


def new_captioner(
    model: ModelSettings, dataset: Dataset, split: str, vocabulary: Vocabulary, feature_size: int
) -> CaptionModel:
    """A captioner with fresh weights."""
    config = model_spec(model.variant).config(
        vocabulary_size=len(vocabulary),
        feature_size=feature_size,
        word_size=model.word_size,
        hidden_size=model.hidden_size,
        attention_size=model.attention_size,
        variant=model.variant,
        mode=model.mode,
        image_in_top_layer=model.image_in_top_layer,
        end_slot=model.end_slot and model.mode == "paper" and model.variant in OURS,
        **_of_dataset(model, dataset, split, vocabulary),
    )
    return build_model(config)


def _of_dataset(model: ModelSettings, dataset: Dataset, split: str, vocabulary: Vocabulary) -> Mapping[str, Any]:
    """What a system needs to know of the dataset before it can be made."""
    table = dataset.table
    if model.variant == "neural_baby_talk":
        forms = slot_words(table, split, vocabulary, min_count=4 * model.min_count)
        return {"forms": ";".join(" ".join(map(str, words)) for words in forms)}
    if model.variant == "ag_cvae":
        return {"num_classes": len(table.classes)}
    if model.variant == "pos":
        tags = _tags(dataset, split, vocabulary)
        return {"tag_of_word": tags, "templates": " ".join(tag_sequences(table, split, vocabulary, tags))}
    return {}


def _tags(dataset: Dataset, split: str, vocabulary: Vocabulary) -> str:
    """A tag for each word of a captioner; a dataset of an sct that did not tag its words needs spaCy for it."""
    if dataset.tags is None:
        return word_tags(dataset.table, split, vocabulary)
    known = dict(zip(dataset.vocabulary.words, dataset.tags, strict=True))
    return "".join(known[word] for word in vocabulary.words)


def learn_classes(captioner: CaptionModel, regions: Float[Tensor, "regions features"], table: Table) -> None:
    """Let a system that speaks in classes learn them from the features of a dataset's regions."""
    if not isinstance(captioner, AgCvae | BabyTalk):
        return
    classes = table.columns["region_class"].astype(np.int64)
    known = np.flatnonzero(classes != NO_CLASS)
    some = known[:: max(1, -(-len(known) // _REGIONS_TO_LEARN_CLASSES_FROM))]
    rows = torch.from_numpy(some)
    share = captioner.region_classes.fit(
        regions[rows.to(regions.device)].float().to(captioner.output.weight.device), torch.from_numpy(classes[some])
    )
    logger.info("the class of %.1f %% of %s regions is told from their features", 100 * share, f"{len(some):,}")
