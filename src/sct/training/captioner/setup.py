"""Everything a recipe needs, made ready on a device: captioner, tables of examples and features, rewards."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from sct.captioner.bundle import Bundle, load_bundle
from sct.data.dataset import Dataset
from sct.data.examples import (
    Examples,
    Tail,
    examples_of_pooled_controls,
    examples_of_samples,
    examples_of_whole_images,
    make_examples,
)
from sct.data.features import Features, features_for
from sct.data.samples import samples_of
from sct.data.table import Table
from sct.errors import InputError
from sct.language.vocabulary import PAD, Vocabulary
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import ShowControlTell
from sct.regions.store import RegionStore
from sct.training.captioner.config import Recipe
from sct.training.captioner.dataloader import DeviceDataLoader, RegionTable
from sct.training.captioner.distillation import load_teacher
from sct.training.captioner.image_features import ImageFeatureExtractor, Views
from sct.training.captioner.losses import MaskedMean
from sct.training.captioner.model_init import learn_classes, new_captioner, start_speaking
from sct.training.captioner.objectives import LONGEST_REFERENCE, RewardObjective, WordsObjective, as_cider_reads
from sct.training.captioner.validation import Validation, make_validation
from sct.training.rewards import CiderReward, NgramWeights, TokenSequences
from sct.training.rewards.tables import alignment_reward
from sct.vision.encoder import load_vision
from sct.vision.interface import NetworkVision
from sct.vision.layout import LayoutEncoder

logger = logging.getLogger(__name__)

TRAINING_SPLIT, VALIDATION_SPLIT = "train", "val"
_IMAGES_AT_ONCE = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class TrainingComponents:
    """What is trained, and on what."""

    dataset: Dataset
    bundle: Bundle
    """The captioner as it is now, with all that it will be saved with."""
    examples: Examples
    feed: DeviceDataLoader
    validation: Validation | None
    """Judges the captioner; none where the dataset has no sample to validate on."""
    views: Views | None
    """Draws the training images anew; none where features are always the same."""
    teachers: tuple[ShowControlTell, ...]
    """Captioners that the trained one learns from; they do not learn themselves."""


def build_training(recipe: Recipe, device: torch.device, dtype: torch.dtype) -> TrainingComponents:
    """Read the dataset, make or load the captioner, and lay everything out where the recipe wants it."""
    dataset = Dataset.open(Path(recipe.data))
    store = RegionStore.open(recipe.examples.features) if recipe.examples.features else None
    bundle = _bundle(recipe, dataset, store)
    teachers = tuple(load_teacher(Path(name), bundle, device) for name in recipe.objective.teacher_folders)
    config = bundle.captioner.config
    encoder = None if bundle.encoder is None else bundle.encoder.to(device)
    features = (
        features_for(dataset.table, store, encoder, skip_zeros=config.mode == "reference")
        if store is not None or bundle.vision is None
        else ImageFeatureExtractor(_eye(bundle), dataset, recipe.examples.image_folder, device)
    )
    num_rows = len(dataset.table.columns["region_class"]) + len(dataset)
    home = _home(recipe, device, num_rows, config.feature_size * dtype.itemsize)
    table = _region_table(features, dataset.table, config.feature_size, home, dtype)
    if not recipe.start:
        learn_classes(bundle.captioner, table.regions, dataset.table)
    train = _training_examples(recipe, dataset.table, bundle)
    if train is None or not len(train):
        raise InputError(
            f"{recipe.data} has no caption to train on: expected some with chunks on an image with regions"
        )
    views = _views(recipe, features, table, dataset.table, train)
    validation = _validation(recipe, dataset.table, bundle, table, device)
    return TrainingComponents(
        dataset, bundle, train, DeviceDataLoader(train, table, device), validation, views, teachers
    )


def _training_examples(recipe: Recipe, table: Table, bundle: Bundle) -> Examples | None:
    if TRAINING_SPLIT not in table.splits:
        return None
    config = bundle.captioner.config
    examples = make_examples(
        table,
        TRAINING_SPLIT,
        bundle.vocabulary,
        max_length=recipe.examples.max_length,
        max_slots=recipe.examples.max_slots,
        max_members=recipe.examples.max_members,
        tail=_tail(config),
    )
    if config.ignores_control:
        return examples_of_whole_images(table, examples)
    return examples_of_pooled_controls(examples) if config.pools_control else examples


def _tail(config: CaptionerConfig) -> Tail:
    if config.mode == "reference":
        return "likeliest"  # the authors train with a set for the words after the last chunk, and test without one
    return "end" if config.end_slot else "last"


def _validation(
    recipe: Recipe, table: Table, bundle: Bundle, regions: RegionTable, device: torch.device
) -> Validation | None:
    if VALIDATION_SPLIT not in table.splits:
        return None
    samples = samples_of(table, VALIDATION_SPLIT, human_only=recipe.examples.validate_on == "people")
    if not samples:
        return None
    config = bundle.captioner.config
    examples = examples_of_samples(table, samples)
    if config.ignores_control:
        examples = examples_of_whole_images(table, examples)
    return make_validation(
        table,
        samples,
        DeviceDataLoader(examples, regions, device),
        bundle.vocabulary,
        bundle.nouns,
        device,
        reference=config.mode == "reference",
        beam_size=recipe.val_beam_size,
    )


def human_oversampling(recipe: Recipe, workshop: TrainingComponents) -> Int[Tensor, " examples"] | None:
    """How often an epoch goes through each example; none where that is once for all."""
    if recipe.examples.human_oversampling == 1:
        return None
    built = torch.from_numpy(workshop.dataset.table.columns["auto_grounded"][workshop.examples.caption])
    return torch.where(built, 1, recipe.examples.human_oversampling)


def make_objective(
    recipe: Recipe, workshop: TrainingComponents, device: torch.device, mean: MaskedMean
) -> WordsObjective | RewardObjective:
    """What the recipe's stage makes smaller."""
    settings = recipe.objective
    if settings.stage == "words":
        smoothing = recipe.optimiser.label_smoothing
        return WordsObjective(workshop.feed, settings, label_smoothing=smoothing, teachers=workshop.teachers, mean=mean)
    whole = _whole_vocabulary(workshop.bundle.vocabulary, workshop.dataset.table)
    references = _references(workshop.dataset.table, workshop.examples, whole)
    documents = torch.from_numpy(workshop.examples.image).long() if settings.documents == "image" else None
    cider = CiderReward(NgramWeights.of_captions(as_cider_reads(references, settings), documents))
    nouns = None
    if settings.stage == "cider_and_nw":
        table = workshop.bundle.nouns
        if table is None:
            raise InputError(
                f"neither {recipe.start} nor {recipe.data} has a noun table, which this stage is rewarded by: prepare "
                "the dataset again"
            )
        is_reference = workshop.bundle.captioner.config.mode == "reference"
        nouns = alignment_reward(table.known() if is_reference else table, whole).to(device)
    placed = TokenSequences(references.words.to(device), references.lengths.to(device))
    return RewardObjective(workshop.feed, settings, cider=cider.to(device), nouns=nouns, references=placed, mean=mean)


def _bundle(recipe: Recipe, dataset: Dataset, store: RegionStore | None) -> Bundle:
    """The captioner to begin with: that of another run, or a new one."""
    if recipe.start:
        bundle = load_bundle(Path(recipe.start))
        return bundle if bundle.nouns is not None else replace(bundle, nouns=dataset.nouns)
    vocabulary = dataset.vocabulary.cut(recipe.model.min_count)
    vision = load_vision(Path(recipe.examples.vision)) if recipe.examples.vision else None
    encoder = None if store or vision else LayoutEncoder(dataset.table.classes, recipe.model.feature_size)
    model = recipe.model
    source = store or vision
    feature_size = source.feature_size if source else model.feature_size
    torch.manual_seed(recipe.seed)
    captioner = new_captioner(model, dataset, TRAINING_SPLIT, vocabulary, feature_size)
    if model.language:
        shared = start_speaking(captioner, vocabulary, Path(model.language))
        logger.info("%s of %s words are known from %s", f"{shared:,}", f"{len(vocabulary):,}", model.language)
    return Bundle(Path(recipe.out), captioner, vocabulary, {}, encoder, dataset.nouns, vision=vision)


def _eye(bundle: Bundle) -> NetworkVision:
    if not isinstance(bundle.vision, NetworkVision):
        raise InputError(
            "the bundle sees by something that gives no features of a whole dataset: expected one that was trained with "
            "examples.vision=FILE"
        )
    return bundle.vision


def _views(recipe: Recipe, features: Features, table: RegionTable, columns: Table, train: Examples) -> Views | None:
    if recipe.examples.views == "plain":
        return None
    if not isinstance(features, ImageFeatureExtractor):
        raise InputError(
            "examples.views is 'random', but features do not come from images: name what sees, examples.vision=FILE"
        )
    return Views(
        features,
        table,
        np.unique(train.image),
        columns.columns["image_region"].astype(np.int64),
        dropout=recipe.examples.feature_dropout,
        seed=recipe.seed,
    )


def _region_table(
    features: Features, table: Table, feature_size: int, home: torch.device, dtype: torch.dtype
) -> RegionTable:
    """Features of all regions and images, fetched some images at a time."""
    ends = table.columns["image_region"].astype(np.int64)
    regions = torch.empty(int(ends[-1]), feature_size, device=home, dtype=dtype)
    images = torch.empty(len(ends) - 1, feature_size, device=home, dtype=dtype)
    for start in range(0, len(images), _IMAGES_AT_ONCE):
        stop = min(start + _IMAGES_AT_ONCE, len(images))
        fetched = features(range(start, stop))
        regions[ends[start] : ends[stop]] = fetched.regions.to(home, dtype)
        images[start:stop] = fetched.image.to(home, dtype)
    pinned = home.type == "cpu" and torch.cuda.is_available()
    return RegionTable(regions.pin_memory(), images.pin_memory()) if pinned else RegionTable(regions, images)


def _home(recipe: Recipe, device: torch.device, num_rows: int, bytes_per_row: int) -> torch.device:
    """Where the tables live: on the device where they leave half of its free memory to the training."""
    if device.type != "cuda" or recipe.examples.home == "device":
        return device
    free, _ = torch.cuda.mem_get_info(device)
    fits = num_rows * bytes_per_row < free / 2
    return device if fits and recipe.examples.home == "auto" else torch.device("cpu")


def _whole_vocabulary(vocabulary: Vocabulary, table: Table) -> Vocabulary:
    """The captioner's words and after them all others of the dataset, which it can hear but not say."""
    others = tuple(word for word in table.words if word not in vocabulary.ids)
    return Vocabulary(vocabulary.words + others, vocabulary.counts + (0,) * len(others))


def _references(table: Table, examples: Examples, vocabulary: Vocabulary) -> TokenSequences:
    """The captions that samples are judged by, one for each example."""
    starts = table.columns["caption_word"].astype(np.int64)
    lengths = np.minimum(np.diff(starts)[examples.caption], LONGEST_REFERENCE)
    places = np.arange(lengths.max(initial=0))
    is_word = places < lengths[:, None]
    rows = np.where(is_word, starts[examples.caption][:, None] + places, 0)
    ids = np.array(vocabulary.encode(table.words))[table.columns["word"][rows]]
    return TokenSequences(torch.from_numpy(np.where(is_word, ids, PAD)), torch.from_numpy(lengths))
