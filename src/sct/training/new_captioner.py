"""A captioner to begin with: configured by a recipe and, where it speaks in what a dataset has, by the dataset."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.baselines.ag_cvae import AgCvae
from sct.baselines.baby_talk import BabyTalk
from sct.data.dataset import Dataset
from sct.data.slot_words import slot_words
from sct.data.table import NO_CLASS, Table
from sct.data.tag_sequences import tag_sequences, word_tags
from sct.language.vocabulary import Vocabulary
from sct.model.config import OURS
from sct.model.system import CaptioningSystem
from sct.model.systems import make_system, system_kind
from sct.training.recipe import ModelSettings

logger = logging.getLogger(__name__)

_REGIONS_TO_LEARN_CLASSES_FROM = 50_000


def new_captioner(
    model: ModelSettings, dataset: Dataset, split: str, vocabulary: Vocabulary, feature_size: int
) -> CaptioningSystem:
    """A captioner with fresh weights."""
    config = system_kind(model.variant).config(
        vocabulary_size=len(vocabulary),
        feature_size=feature_size,
        word_size=model.word_size,
        hidden_size=model.hidden_size,
        attention_size=model.attention_size,
        variant=model.variant,
        mode=model.mode,
        image_in_top_layer=model.image_in_top_layer,
        sees_end=model.sees_end and model.mode == "paper" and model.variant in OURS,
        **_of_dataset(model, dataset, split, vocabulary),
    )
    return make_system(config)


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


def learn_classes(captioner: CaptioningSystem, regions: Float[Tensor, "regions features"], table: Table) -> None:
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
