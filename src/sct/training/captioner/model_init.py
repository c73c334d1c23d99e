"""Initialise a new model: config from recipe and dataset, language weights from another captioner, region classes."""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.captioner.bundle import load_bundle
from sct.data.corpus_words import class_nouns, tag_templates, word_tags
from sct.data.dataset import Dataset
from sct.data.table import Table
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.models.baselines.region_classifier import RegionClassifier
from sct.models.config import GATED_VARIANTS
from sct.models.interface import CaptionModel
from sct.models.registry import build_model, model_spec
from sct.regions.records import NO_CLASS
from sct.training.captioner.model_config import ModelConfig, TransformerSettings

logger = logging.getLogger(__name__)

_WORD_WEIGHTS = ("word_embedding.weight", "vocab_projection.weight", "vocab_projection.bias", "gate_words.weight")
"""Weights with one row per word."""
_MAY_DIFFER = ("vocabulary_size", "end_slot", "dropout")
"""Config fields that do not change the shape of other weights."""
_MAX_CLASSIFIER_REGIONS = 50_000


def new_model(
    config: ModelConfig,
    dataset: Dataset,
    split: str,
    vocabulary: Vocabulary,
    feature_size: int,
    transformer: TransformerSettings | None = None,
) -> CaptionModel:
    """Model with random weights; ``transformer`` has the further settings of that variant."""
    more = _dataset_config(config, dataset, split, vocabulary)
    if config.variant == "transformer":
        more = asdict(transformer or TransformerSettings())
    return build_model(
        model_spec(config.variant).config(
            vocabulary_size=len(vocabulary),
            feature_size=feature_size,
            word_size=config.word_size,
            hidden_size=config.hidden_size,
            attention_size=config.attention_size,
            variant=config.variant,
            mode=config.mode,
            image_in_language_lstm=config.image_in_language_lstm,
            end_slot=config.end_slot and config.mode == "paper" and config.variant in GATED_VARIANTS,
            **more,
        )
    )


def _dataset_config(config: ModelConfig, dataset: Dataset, split: str, vocabulary: Vocabulary) -> Mapping[str, Any]:
    """Config fields of a baseline that depend on the dataset."""
    table = dataset.table
    if config.variant == "neural_baby_talk":
        fillers = class_nouns(table, split, vocabulary, min_count=4 * config.min_count)
        return {"slot_fillers": ";".join(" ".join(map(str, words)) for words in fillers)}
    if config.variant == "ag_cvae":
        return {"num_classes": len(table.classes)}
    if config.variant == "pos":
        tags = _word_tags(dataset, split, vocabulary)
        return {"tag_of_word": tags, "templates": " ".join(tag_templates(table, split, vocabulary, tags))}
    return {}


def _word_tags(dataset: Dataset, split: str, vocabulary: Vocabulary) -> str:
    """Part-of-speech tag of each word; for datasets prepared without tags this needs spaCy."""
    if dataset.tags is None:
        return word_tags(dataset.table, split, vocabulary)
    known = dict(zip(dataset.vocabulary.words, dataset.tags, strict=True))
    return "".join(known[word] for word in vocabulary.words)


@torch.no_grad()
def load_language_weights(model: CaptionModel, vocabulary: Vocabulary, folder: Path) -> int:
    """Copy all weights of the captioner in a bundle, with word rows matched by word; return how many words matched.

    Words that the bundle does not have keep their random weights.
    """
    try:
        source = load_bundle(folder)
    except InputError as error:
        raise InputError(f"model.init_language_from: {error}") from error
    got, expected = asdict(source.model.config), asdict(model.config)
    differing = [name for name, value in got.items() if value != expected.get(name) and name not in _MAY_DIFFER]
    if differing:
        differences = [f"{name} {got[name]} (expected {expected.get(name)})" for name in differing]
        raise InputError(
            f"model.init_language_from: the captioner in {source.folder} has {', '.join(differences)}: only its "
            "vocabulary may differ"
        )
    shared = [word for word in vocabulary.words if word in source.vocabulary.ids]
    target_rows = torch.tensor([vocabulary.ids[word] for word in shared])
    source_rows = torch.tensor([source.vocabulary.ids[word] for word in shared])
    weights = source.model.state_dict()
    for name, weight in model.state_dict().items():
        if name in _WORD_WEIGHTS:
            weight[target_rows] = weights[name][source_rows]
        else:
            weight.copy_(weights[name])
    return len(shared)


def fit_region_classifiers(model: CaptionModel, regions: Float[Tensor, "regions features"], table: Table) -> None:
    """Fit the region classifier of models that have one (AG-CVAE, Neural Baby Talk) to the dataset's regions."""
    classifiers = [module for module in model.modules() if isinstance(module, RegionClassifier)]
    if not classifiers:
        return
    classes = table.columns["region_class"].astype(np.int64)
    known = np.flatnonzero(classes != NO_CLASS)
    subset = known[:: max(1, -(-len(known) // _MAX_CLASSIFIER_REGIONS))]
    rows = torch.from_numpy(subset)
    for classifier in classifiers:
        accuracy = classifier.fit(
            regions[rows.to(regions.device)].float().to(model.vocab_projection.weight.device),
            torch.from_numpy(classes[subset]),
        )
        logger.info("region classifier: accuracy %.1f %% on %s regions", 100 * accuracy, f"{len(subset):,}")
