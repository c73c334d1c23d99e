"""Builds the components of a captioner's training run from its recipe: data, model, features, objective, validation."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from sct.captioner.bundle import Bundle, load_bundle, vision_file
from sct.data.dataset import Dataset
from sct.data.examples import (
    Examples,
    Tail,
    examples_from_samples,
    make_examples,
    pooled_control_examples,
    whole_image_examples,
)
from sct.data.features import Features, make_features
from sct.data.holdout import held_out_images
from sct.data.samples import make_samples
from sct.data.table import TRAINING_SPLIT, VALIDATION_SPLIT, Table
from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.regions.sharded_store import AnyRegionStore, open_store
from sct.training.captioner.config import CaptionerRecipe
from sct.training.captioner.dataloader import DeviceDataLoader, EpochSampler, RegionTable
from sct.training.captioner.distillation import load_teacher
from sct.training.captioner.image_features import AugmentedFeatures, ImageFeatureExtractor
from sct.training.captioner.model_init import fit_region_classifiers, load_language_weights, new_model
from sct.training.captioner.objective_setup import build_objective, check_noun_rewards
from sct.training.captioner.objectives import Objective
from sct.training.captioner.validation import Validation, make_validation
from sct.training.config import split_list
from sct.training.loss import MaskedMean, masked_mean
from sct.vision.encoder import load_vision
from sct.vision.layout import LayoutEncoder

logger = logging.getLogger(__name__)

_IMAGE_BATCH_SIZE = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class TrainingComponents:
    """Everything that the training loop uses."""

    dataset: Dataset
    bundle: Bundle
    """The captioner in training, with everything else that is saved with it."""
    examples: Examples
    loader: DeviceDataLoader
    sampler: EpochSampler
    objective: Objective
    validation: Validation | None
    """None if the dataset has no validation sample."""
    augmented_features: AugmentedFeatures | None
    """None if features do not change between epochs."""


def build_training(
    recipe: CaptionerRecipe, device: torch.device, dtype: torch.dtype, mean: MaskedMean = masked_mean
) -> TrainingComponents:
    """Build all components; features are stored as ``dtype``, and ``mean`` averages over all ranks."""
    dataset = Dataset.open(Path(recipe.data))
    store = open_store(recipe.examples.features) if recipe.examples.features else None
    bundle = _start_bundle(recipe, dataset, store)
    # Before features, whose extraction may take minutes.
    check_noun_rewards(recipe, bundle)
    teachers = [load_teacher(Path(folder), bundle, device) for folder in recipe.objective.teacher_folders]
    extractor = _image_feature_extractor(recipe, dataset, bundle, store, device)
    config = bundle.model.config
    features: Features
    if extractor is not None:
        features = extractor
    else:
        encoder = None if bundle.encoder is None else bundle.encoder.to(device)
        features = make_features(dataset.table, store, encoder, skip_zeros=config.mode == "reference")
    regions = _region_table(recipe, features, dataset.table, config.feature_size, device, dtype)
    if not recipe.start:
        fit_region_classifiers(bundle.model, regions.regions, dataset.table)
    held_out = _held_out_images(recipe, dataset.table)
    examples = _training_examples(recipe, dataset.table, bundle, held_out)
    loader = DeviceDataLoader(examples, regions, device)
    return TrainingComponents(
        dataset=dataset,
        bundle=bundle,
        examples=examples,
        loader=loader,
        sampler=EpochSampler(
            len(examples),
            recipe.batch_size,
            seed=recipe.seed,
            shuffle=recipe.objective.shuffle,
            repeats=_oversampling(recipe, dataset.table, examples),
        ),
        objective=build_objective(recipe, dataset, bundle, teachers, examples, loader, device, mean),
        validation=_validation(recipe, dataset.table, bundle, held_out, regions, device),
        augmented_features=_augmented_features(recipe, extractor, regions, dataset.table, examples),
    )


def _start_bundle(recipe: CaptionerRecipe, dataset: Dataset, store: AnyRegionStore | None) -> Bundle:
    """The bundle to start from, or one with a new model."""
    if recipe.start:
        bundle = load_bundle(Path(recipe.start))
        return bundle if bundle.nouns is not None else replace(bundle, nouns=dataset.nouns)
    config = recipe.model
    vocabulary = dataset.vocabulary.with_min_count(config.min_count)
    vision = load_vision(vision_file(Path(recipe.examples.vision))) if recipe.examples.vision else None
    encoder = None if store or vision else LayoutEncoder(dataset.table.classes, config.feature_size)
    source = store or vision
    torch.manual_seed(recipe.seed)
    feature_size = source.feature_size if source else config.feature_size
    model = new_model(config, dataset, TRAINING_SPLIT, vocabulary, feature_size, recipe.transformer)
    if config.init_language_from:
        shared = load_language_weights(model, vocabulary, Path(config.init_language_from))
        logger.info("%s of %s words initialised from %s", shared, len(vocabulary), config.init_language_from)
    return Bundle(Path(recipe.out), model, vocabulary, {}, encoder, dataset.nouns, vision=vision)


def _image_feature_extractor(
    recipe: CaptionerRecipe, dataset: Dataset, bundle: Bundle, store: AnyRegionStore | None, device: torch.device
) -> ImageFeatureExtractor | None:
    """None if features come from a region store or a layout encoder."""
    if store is None and bundle.vision is not None:
        return ImageFeatureExtractor(bundle.vision, dataset, split_list(recipe.examples.images), device)
    if recipe.examples.augment:
        raise InputError(
            "examples.augment is true, but features do not come from images: name a vision encoder, "
            "examples.vision=FILE"
        )
    return None


def _region_table(
    recipe: CaptionerRecipe,
    features: Features,
    table: Table,
    feature_size: int,
    device: torch.device,
    dtype: torch.dtype,
) -> RegionTable:
    """Features of all regions and images, on the device or in pinned host memory."""
    offsets = table.columns["region_offsets"].astype(np.int64)
    num_regions, num_images = int(offsets[-1]), len(offsets) - 1
    storage = _storage_device(recipe, device, (num_regions + num_images) * feature_size * dtype.itemsize)
    regions = torch.empty(num_regions, feature_size, device=storage, dtype=dtype)
    images = torch.empty(num_images, feature_size, device=storage, dtype=dtype)
    for start in range(0, num_images, _IMAGE_BATCH_SIZE):
        stop = min(start + _IMAGE_BATCH_SIZE, num_images)
        batch = features(range(start, stop))
        regions[offsets[start] : offsets[stop]] = batch.regions.to(storage, dtype)
        images[start:stop] = batch.image.to(storage, dtype)
    pinned = storage.type == "cpu" and torch.cuda.is_available()
    return RegionTable(regions.pin_memory(), images.pin_memory()) if pinned else RegionTable(regions, images)


def _storage_device(recipe: CaptionerRecipe, device: torch.device, num_bytes: int) -> torch.device:
    """``auto``: the device, if the tables take less than half of its free memory."""
    if device.type != "cuda" or recipe.examples.storage == "device":
        return device
    free, _ = torch.cuda.mem_get_info(device)
    return device if num_bytes < free / 2 and recipe.examples.storage == "auto" else torch.device("cpu")


def _held_out_images(recipe: CaptionerRecipe, table: Table) -> Bool[np.ndarray, " images"] | None:
    """Training images on which the best step is selected; None: it is selected on the val split."""
    if not recipe.examples.holdout or TRAINING_SPLIT not in table.splits:
        return None
    samples = make_samples(table, TRAINING_SPLIT, human_only=recipe.examples.validate_on == "human")
    return held_out_images(table.image_ids, (sample.image for sample in samples), recipe.examples.holdout)


def _training_examples(
    recipe: CaptionerRecipe, table: Table, bundle: Bundle, held_out: Bool[np.ndarray, " images"] | None
) -> Examples:
    config = bundle.model.config
    examples = None
    if TRAINING_SPLIT in table.splits:
        examples = make_examples(
            table,
            TRAINING_SPLIT,
            bundle.vocabulary,
            max_length=recipe.examples.max_length,
            max_slots=recipe.examples.max_slots,
            max_members=recipe.examples.max_members,
            tail=_tail(config),
            gate_targets=recipe.examples.gate_targets,
            fill_empty_sets=recipe.examples.fill_empty_sets,
            images=None if held_out is None else ~held_out,
        )
    if examples is None or not len(examples):
        raise InputError(
            f"{recipe.data} has no caption to train on: expected captions with chunks on images with regions, "
            "more than examples.holdout holds out"
        )
    if config.ignores_control:
        return whole_image_examples(table, examples)
    return pooled_control_examples(examples) if config.pools_control else examples


def _tail(config: CaptionerConfig) -> Tail:
    if config.mode == "reference":
        return "top_scoring"  # the authors train with a region set for the words after the last chunk, and test without
    return "end" if config.end_slot else "last"


def _oversampling(recipe: CaptionerRecipe, table: Table, examples: Examples) -> Tensor | None:
    """How often an epoch visits each example; None: once."""
    if recipe.examples.human_oversampling == 1:
        return None
    auto_grounded = torch.from_numpy(table.columns["auto_grounded"][examples.caption])
    return torch.where(auto_grounded, 1, recipe.examples.human_oversampling)


def _validation(
    recipe: CaptionerRecipe,
    table: Table,
    bundle: Bundle,
    held_out: Bool[np.ndarray, " images"] | None,
    regions: RegionTable,
    device: torch.device,
) -> Validation | None:
    split = VALIDATION_SPLIT if held_out is None else TRAINING_SPLIT
    if split not in table.splits:
        return None
    samples = make_samples(table, split, human_only=recipe.examples.validate_on == "human")
    if held_out is not None:
        samples = [sample for sample in samples if held_out[sample.image]]
    if not samples:
        return None
    config = bundle.model.config
    examples = examples_from_samples(table, samples)
    if config.ignores_control:
        examples = whole_image_examples(table, examples)
    return make_validation(
        table,
        samples,
        DeviceDataLoader(examples, regions, device),
        bundle.vocabulary,
        bundle.nouns,
        device,
        is_reference_mode=config.mode == "reference",
        beam_size=recipe.val_beam_size,
    )


def _augmented_features(
    recipe: CaptionerRecipe,
    extractor: ImageFeatureExtractor | None,
    regions: RegionTable,
    table: Table,
    examples: Examples,
) -> AugmentedFeatures | None:
    if extractor is None or not recipe.examples.augment:
        return None
    return AugmentedFeatures(
        extractor,
        regions,
        np.unique(examples.image),
        table.columns["region_offsets"].astype(np.int64),
        dropout=recipe.examples.feature_dropout,
        seed=recipe.seed,
    )
