"""Builds the objective of a captioner's training run: references, document frequencies and nouns of its rewards."""

from collections.abc import Sequence

import numpy as np
import torch

from sct.captioner.bundle import Bundle
from sct.data.dataset import Dataset
from sct.data.examples import Examples
from sct.data.table import Table
from sct.errors import InputError
from sct.language.vocabulary import PAD, Vocabulary
from sct.models.config import GATED_VARIANTS
from sct.models.show_control_tell import ShowControlTell
from sct.training.captioner.config import CaptionerRecipe
from sct.training.captioner.dataloader import DeviceDataLoader
from sct.training.captioner.noun_references import noun_names, prepare_noun_references
from sct.training.captioner.noun_rewards import NounRewards
from sct.training.captioner.objectives import (
    MAX_REFERENCE_LENGTH,
    CrossEntropyObjective,
    Objective,
    SelfCriticalObjective,
    cider_references,
)
from sct.training.loss import MaskedMean
from sct.training.rewards import AlignmentReward, CiderReward, InverseDocumentFrequencies, TokenSequences
from sct.training.rewards.ngrams import check_vocabulary_size


def build_objective(
    recipe: CaptionerRecipe,
    dataset: Dataset,
    bundle: Bundle,
    teachers: Sequence[ShowControlTell],
    examples: Examples,
    loader: DeviceDataLoader,
    device: torch.device,
    mean: MaskedMean,
) -> Objective:
    """Objective of a run on a device; ``mean`` averages over all ranks."""
    config = recipe.objective
    if not config.is_self_critical:
        return CrossEntropyObjective(
            loader, config, label_smoothing=recipe.optimizer.label_smoothing, teachers=teachers, mean=mean
        )
    vocabulary = _full_vocabulary(bundle.vocabulary, dataset.table)
    check_vocabulary_size(len(vocabulary))
    references = reference_captions(dataset.table, examples, vocabulary)
    documents = torch.from_numpy(examples.image).long() if config.cider_documents == "image" else None
    cider = CiderReward(InverseDocumentFrequencies.from_captions(cider_references(references, config), documents))
    nouns = None
    if config.stage == "cider_and_nw":
        nouns = _noun_rewards(recipe, dataset, bundle, vocabulary, references, examples, loader.max_slots).to(device)
    on_device = TokenSequences(references.words.to(device), references.lengths.to(device))
    return SelfCriticalObjective(loader, config, cider=cider.to(device), nouns=nouns, references=on_device, mean=mean)


def check_noun_rewards(recipe: CaptionerRecipe, bundle: Bundle) -> None:
    """Raise if a captioner cannot be trained with the rewards of nouns of a recipe; before features are made."""
    objective, config = recipe.objective, bundle.model.config
    if objective.stage != "cider_and_nw":
        return
    if bundle.nouns is None:
        raise InputError(
            f"neither {recipe.start} nor {recipe.data} has a noun table, which the NW reward needs: prepare the "
            "dataset again"
        )
    for name in ("permuted_share", "named_set_weight"):
        value = getattr(objective, name)
        if value and (config.variant not in GATED_VARIANTS or config.mode != "paper"):
            raise InputError(
                f"objective.{name} is {value}, but the captioner of {recipe.start} is {config.variant!r} in mode "
                f"{config.mode!r}: leave it out, or start from one with a pointer in mode 'paper'"
            )


def _noun_rewards(
    recipe: CaptionerRecipe,
    dataset: Dataset,
    bundle: Bundle,
    vocabulary: Vocabulary,
    references: TokenSequences,
    examples: Examples,
    max_slots: int,
) -> NounRewards:
    nouns = bundle.nouns
    assert nouns is not None  # check_noun_rewards
    is_reference = bundle.model.config.mode == "reference"
    alignment = AlignmentReward.from_noun_table(nouns.with_vectors() if is_reference else nouns, vocabulary)
    names = noun_names(alignment, vocabulary)
    prepared = prepare_noun_references(dataset.table, examples, references, alignment, names, max_slots)
    return NounRewards(alignment, names, prepared, recipe.objective)


def _full_vocabulary(vocabulary: Vocabulary, table: Table) -> Vocabulary:
    """The model's words followed by all other words of the dataset, which occur in references only."""
    others = tuple(word for word in table.words if word not in vocabulary.ids)
    return Vocabulary(vocabulary.words + others, vocabulary.counts + (0,) * len(others))


def reference_captions(table: Table, examples: Examples, vocabulary: Vocabulary) -> TokenSequences:
    """Reference caption of each example."""
    offsets = table.columns["word_offsets"].astype(np.int64)
    lengths = np.minimum(np.diff(offsets)[examples.caption], MAX_REFERENCE_LENGTH)
    positions = np.arange(lengths.max(initial=0))
    is_word = positions < lengths[:, None]
    rows = np.where(is_word, offsets[examples.caption][:, None] + positions, 0)
    ids = np.array(vocabulary.encode(table.words))[table.columns["word_id"][rows]]
    return TokenSequences(torch.from_numpy(np.where(is_word, ids, PAD)), torch.from_numpy(lengths))
