"""Small seeded objects for tests: models, captioners, bundles, vision encoders, datasets and recipes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from PIL import Image

from sct.captioner.bundle import Precision, save_bundle
from sct.captioner.captioner import Captioner
from sct.data.dataset import Dataset, Manifest, write_dataset
from sct.data.features import LayoutFeatures
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table
from sct.data.table_join import merge_tables
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.language.word_vectors import WordVectors
from sct.models.inputs import ControlBatch, collate_controls
from sct.models.interface import CaptionModel
from sct.models.registry import build_model, model_spec
from sct.regions import Box, Region
from sct.regions.detections import DetectionVocabulary
from sct.regions.detections_writer import DetectionBatch
from sct.sorting.baselines import ClassOrder
from sct.sorting.sorter import ControlSorter
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.interface import VisionEncoder
from sct.vision.layout import LayoutEncoder
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import ViTConfig
from tests.color_vision import BLUE, GRAY, GREEN, RED, ColorVision, paint_quarters

if TYPE_CHECKING:
    from sct.training.captioner.config import CaptionerRecipe
    from sct.training.sorter.config import SorterRecipe

VOCABULARY_SIZE, FEATURE_SIZE = 11, 6

# Models and control batches ------------------------------------------------------------------------------------------

SIZES = {
    "vocabulary_size": VOCABULARY_SIZE,
    "feature_size": FEATURE_SIZE,
    "word_size": 5,
    "hidden_size": 8,
    "attention_size": 4,
}
BASELINE_CONFIGS: dict[str, dict[str, Any]] = {
    "controllable_lstm": {},
    "controllable_up_down": {},
    "fc_2k": {},
    "up_down": {},
    "neural_baby_talk": {"slot_fillers": "4 5;6;;7 8 5"},
    "ag_cvae": {"num_classes": 4, "latent_size": 3},
    "pos": {"tag_of_word": "....DNVPD", "templates": "DNV DNVPDN N"},
}
BASELINE_VOCABULARY_SIZE = 9
TRANSFORMER_SIZES: dict[str, Any] = {
    "num_heads": 2,
    "feedforward_size": 12,
    "encoder_depth": 1,
    "decoder_depth": 2,
    "gate_size": 3,
    "max_distance": 2,
    "max_slots": 3,
}
CONTROLS = [[[0, 1], [2]], [[3]], [[4, 5, 6], [0], [2, 1]]]


def make_model(
    seed: int = 0, *, variant: str = "show_control_tell", std: float | None = None, **config: Any
) -> CaptionModel:
    """Model whose parameters do not require gradients; biases and buffers are random too, so that every term matters.

    With ``std`` weights are drawn from a normal distribution, otherwise initial weights are scaled and perturbed.
    """
    torch.manual_seed(seed)
    settings = SIZES | config
    if variant in BASELINE_CONFIGS:
        settings = SIZES | {"vocabulary_size": BASELINE_VOCABULARY_SIZE} | BASELINE_CONFIGS[variant] | config
    if variant == "transformer":
        settings = SIZES | TRANSFORMER_SIZES | config
    model = build_model(model_spec(variant).config(variant=variant, **settings)).requires_grad_(False)
    for parameter in model.parameters():
        if std is None:
            parameter.mul_(2).add_(torch.randn_like(parameter), alpha=0.3)
        else:
            parameter.normal_(std=std)
    for buffer in model.buffers():
        buffer.normal_()
    return model


def random_controls(generator: torch.Generator, num_examples: int, num_rows: int) -> list[list[list[int]]]:
    """Controls of one to four sets of one to three regions."""

    def randint(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=generator))

    return [
        [[randint(0, num_rows - 1) for _ in range(randint(1, 3))] for _ in range(randint(1, 4))]
        for _ in range(num_examples)
    ]


def make_control_batch(
    seed: int = 0, num_examples: int = 3, num_rows: int = 7, *, controls: list[list[list[int]]] | None = None
) -> ControlBatch:
    """Control batch with random features: given ``controls`` are of one image, random ones of an image each."""
    generator = torch.Generator().manual_seed(seed)
    made = controls or random_controls(generator, num_examples, num_rows)
    regions = torch.randn(num_rows, FEATURE_SIZE, generator=generator)
    images = torch.randn(1 if controls else len(made), FEATURE_SIZE, generator=generator)
    return collate_controls(regions, images.expand(len(made), -1), made)


def random_actions(seed: int, num_rows: int, num_steps: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Words and shifts to feed to a model, each (steps, rows)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (num_steps, num_rows)
    words = torch.randint(VOCABULARY_SIZE, shape, generator=generator)
    return words, torch.randint(2, shape, generator=generator)


# Vision encoders -----------------------------------------------------------------------------------------------------

CLASS_NAMES = ("dog", "man", "ball")


def make_region_network(seed: int = 1, *, class_embedding_size: int = 0, map_scale: int = 1) -> RegionEncoder:
    """Network for images of 84 pixels a side and three classes."""
    torch.manual_seed(seed)
    config = RegionEncoderConfig(
        num_classes=len(CLASS_NAMES),
        image_size=84,
        reduced_channels=8,
        map_scale=map_scale,
        feature_size=16,
        class_embedding_size=class_embedding_size,
        vit=ViTConfig(width=24, num_heads=2, depth=2, grid_size=5),
    )
    return RegionEncoder(config)


def make_vision_encoder(seed: int = 1) -> RegionVisionEncoder:
    """Vision encoder of the kind in a bundle, with 16-d features."""
    return RegionVisionEncoder(make_region_network(seed), CLASS_NAMES)


def make_detection_batch(
    vocabulary: DetectionVocabulary, image_ids: Sequence[str], seed: int = 1, *, num_regions: int | None = None
) -> DetectionBatch:
    """Random detections of images of 640 x 480, each with all classes and words; by default 1, 2, 3 ... regions."""
    rng = np.random.default_rng(seed)
    counts = np.array([num_regions or number for number in range(1, len(image_ids) + 1)])
    rows, corners = int(counts.sum()), rng.uniform(0, 0.5, (int(counts.sum()), 2))
    vocabularies = (vocabulary.class_names, vocabulary.words)
    ids = [np.stack([rng.permutation(len(names)) for _ in range(rows)]) for names in vocabularies]
    return DetectionBatch(
        image_ids=image_ids,
        sizes=np.array([(640, 480)] * len(image_ids)),
        counts=counts,
        boxes=np.hstack([corners, corners + rng.uniform(0.1, 0.5, (rows, 2))]),
        scores=rng.random(rows),
        class_ids=ids[0],
        class_probabilities=rng.random(ids[0].shape),
        word_ids=ids[1],
        word_probabilities=rng.random(ids[1].shape),
    )


def make_image_files(folder: Path) -> Path:
    """Folder of three PNG files of 40 x 20 pixels in different colours."""
    folder.mkdir(parents=True)
    colors = {"a": (RED, GREEN, GRAY, BLUE), "b": (BLUE, RED, GREEN, GREEN), "c": (GRAY, GRAY, GREEN, GRAY)}
    for name, quarters in colors.items():
        Image.fromarray(paint_quarters(*quarters)).save(folder / f"{name}.png")
    return folder


# Captioners and bundles ----------------------------------------------------------------------------------------------

WORDS = ("a", "the", "man", "dog", "rides", "on")
LAYOUT_WORDS = ("a", "the", "man", "horse", "dog", "rides", "on", "with")
LAYOUT_CLASSES = ("dog", "horse", "man")
COLOR_SORTER = ControlSorter(
    ClassOrder({"green": 0.0, "blue": 0.5, "red": 1.0}),
    WordVectors("one number", {"red": 0, "green": 1, "blue": 2}, np.ones((3, 1), np.float32)),
)


def make_captioner_parts(
    seed: int = 3,
    *,
    words: Sequence[str] | Vocabulary = WORDS,
    std: float = 0.9,
    vision: VisionEncoder | Literal["colors"] | None = "colors",
    sorter: ControlSorter | None = COLOR_SORTER,
    **config: Any,
) -> dict[str, Any]:
    """Model with random weights, its vocabulary, vision encoder and sorter, by the names of their arguments."""
    if isinstance(words, Vocabulary):
        vocabulary = words
    else:
        vocabulary = Vocabulary.from_counts({word: 50 - index for index, word in enumerate(words)})
    model = make_model(seed, std=std, vocabulary_size=len(vocabulary), **({"hidden_size": 7} | config))
    encoder = ColorVision(model.config.feature_size) if vision == "colors" else vision
    return {"model": model, "vocabulary": vocabulary, "vision": encoder, "sorter": sorter}


def make_captioner(seed: int = 3, *, length_penalty: float = 0.0, **parts: Any) -> Captioner:
    """Captioner whose captions depend on the control; ``parts`` as for ``make_captioner_parts``."""
    return Captioner(**make_captioner_parts(seed, **parts), length_penalty=length_penalty)


def make_layout_captioner(
    seed: int = 11, *, vision: VisionEncoder | None = None, length_penalty: float = 0.0, **config: Any
) -> Captioner:
    """Captioner with a layout encoder; seed 11 generates captions of maximum length, 13 also empty ones."""
    parts = make_captioner_parts(seed, words=LAYOUT_WORDS, std=0.7, vision=vision, sorter=None, **config)
    return Captioner(**parts, encoder=LayoutEncoder(LAYOUT_CLASSES, FEATURE_SIZE), length_penalty=length_penalty)


def make_bundle(
    folder: Path,
    *,
    encoder: LayoutEncoder | None = None,
    length_penalty: float = 0.0,
    precision: Precision = "float32",
    provenance: dict[str, Any] | None = None,
    **parts: Any,
) -> Path:
    """Bundle in ``folder``; ``parts`` as for ``make_captioner_parts``."""
    save_bundle(
        folder,
        **make_captioner_parts(**parts),
        encoder=encoder,
        length_penalty=length_penalty,
        precision=precision,
        provenance=provenance,
    )
    return folder


# Datasets ------------------------------------------------------------------------------------------------------------

NOUNS = ("dog", "cat", "ball", "tree", "boy")
VERBS = ("near", "behind", "with")
LAYOUT_REGIONS = tuple(
    Region(Box(10 * index, 5, 10 * index + 9, 40), name) for index, name in enumerate(("dog", "horse", "man", "man"))
)


def make_image(
    image_id: str,
    *captions: Sequence[str | Sequence[int]],
    regions: Sequence[Region] = LAYOUT_REGIONS,
    split: str = "val",
    size: tuple[int, int] = (50, 50),
) -> AnnotatedImage:
    """Annotated image; a caption lists its chunks, each the class or the indices of its regions."""

    def make_chunk(chunk: str | Sequence[int]) -> Chunk:
        if isinstance(chunk, str):
            return Chunk(chunk, tuple(i for i, region in enumerate(regions) if region.class_name == chunk))
        return Chunk(None, tuple(chunk))

    made = []
    for caption in captions:
        chunks = tuple(map(make_chunk, caption))
        words = tuple(chunk.class_name or f"word{index}" for index, chunk in enumerate(chunks))
        made.append(Caption(" and ".join(words), words, tuple(range(len(words))), chunks))
    return AnnotatedImage(
        image_id=image_id,
        split=split,
        width=size[0],
        height=size[1],
        regions=tuple(regions),
        captions=tuple(made),
    )


def make_dataset(
    folder: Path,
    images: Sequence[AnnotatedImage],
    *,
    source: str = "a test",
    image_folder: Path | None = None,
    nouns: Sequence[str] | NounTable = (),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Prepared dataset of these images; ``nouns`` given as words get random vectors."""
    table, vocabulary = merge_tables([build_table(images)])
    manifest = Manifest(
        source=source,
        mode="paper",
        settings=dict(settings),
        images=[str(image_folder)] if image_folder else [],
        num_images=len(images),
        num_captions=sum(len(image.captions) for image in images),
    )
    if not isinstance(nouns, NounTable):
        vectors = np.random.default_rng(1).normal(size=(len(nouns), 4))
        nouns = NounTable.from_vectors(nouns, vectors, "four random numbers") if nouns else None
    write_dataset(folder, table, vocabulary, manifest, nouns)
    return folder


def make_layout_dataset(folder: Path) -> Path:
    """Three images of a dog, a horse and two men, one of them for training."""
    images = (
        make_image("1", ("man", "horse"), ("horse",), ("man", "horse")),
        make_image("2", ("dog", "man", "horse"), ("man", "dog")),
        make_image("3", ("dog",), split="train"),
    )
    return make_dataset(folder, images)


def make_layout_features(captioner: Captioner, dataset: Dataset) -> LayoutFeatures:
    """Layout features of a dataset for the captioner of ``make_layout_captioner``."""
    assert captioner.encoder is not None
    return LayoutFeatures(captioner.encoder, dataset.table)


def make_noun_dataset(
    folder: Path,
    *,
    num_sets: int = 2,
    has_val: bool = True,
    source: str = "COCO layout",
    image_folder: Path | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Twelve images with two captions each, "a dog near a ball" and its reverse; the first set has two regions.

    With ``image_folder`` single-colour images are written there.
    """
    images = []
    for number in range(12):
        names = [NOUNS[(number + index * (1 + number // 5)) % 5] for index in range(num_sets)]
        regions = tuple(
            Region(Box(0.1 * index, 0.2, 0.1 * index + 0.3, 0.2 + 0.05 * (number % 7 + 1)), name)
            for index, name in enumerate([*names, names[0]])
        )
        chunks = [Chunk(name, (0, num_sets) if index == 0 else (index,)) for index, name in enumerate(names)]
        if image_folder is not None:
            image_folder.mkdir(exist_ok=True)
            Image.new("RGB", (30, 30), (20 * number, 100, 250 - 20 * number)).save(image_folder / f"{number}.png")
        images.append(
            AnnotatedImage(
                image_id=f"{number}",
                split="val" if has_val and number % 4 == 3 else "train",
                width=1,
                height=1,
                regions=regions,
                captions=tuple(_join_chunks(order, VERBS[number % 3]) for order in (chunks, chunks[::-1])),
                file=f"{number}.png" if image_folder else None,
            )
        )
    return make_dataset(folder, images, source=source, image_folder=image_folder, nouns=NOUNS, settings=settings)


def make_painted_dataset(folder: Path, *, num_images: int = 40) -> Path:
    """Images of 84 pixels a side with a red ball and a blue box, one caption grounded by hand and one automatically."""
    generator = np.random.default_rng(1)
    image_folder, side = folder / "images", 84
    image_folder.mkdir(parents=True)
    colors = {"ball": (220, 30, 30), "box": (30, 30, 220)}
    images = []
    for number in range(num_images):
        pixels = np.full((side, side, 3), 128, np.uint8)
        regions = []
        for name, x in zip(generator.permutation(list(colors)).tolist(), (4, 46), strict=True):
            left, top = x + int(generator.integers(0, 8)), int(generator.integers(4, 50))
            pixels[top : top + 28, left : left + 28] = colors[name]
            regions.append(Region(Box(left, top, left + 28, top + 28), name))
        Image.fromarray(pixels).save(image_folder / f"{number}.png")
        chunks = [Chunk(region.class_name, (index,), lemma=region.class_name) for index, region in enumerate(regions)]
        images.append(
            AnnotatedImage(
                image_id=f"{number}.png",
                split="val" if number % 4 == 3 else "train",
                width=side,
                height=side,
                regions=tuple(regions),
                captions=(
                    _join_chunks(chunks, "near"),
                    _join_chunks(chunks[::-1], "near", auto_grounded=True),
                ),
                file=f"{number}.png",
            )
        )
    return make_dataset(folder / "data", images, image_folder=image_folder, nouns=tuple(colors))


def _join_chunks(chunks: Sequence[Chunk], verb: str, *, auto_grounded: bool = False) -> Caption:
    """Caption "a noun verb a noun ..." of noun chunks."""
    words, slots = [], []
    for index, chunk in enumerate(chunks):
        words += [verb, "a", str(chunk.class_name)] if index else ["a", str(chunk.class_name)]
        slots += [None, index, index] if index else [index, index]
    return Caption(" ".join(words), tuple(words), tuple(slots), tuple(chunks), auto_grounded)


# Recipes -------------------------------------------------------------------------------------------------------------


def make_recipe(
    data: Path, out: Path, *, devices: int = 1, start: Path | None = None, **changes: Any
) -> "CaptionerRecipe":
    """Captioner recipe of six steps on the CPU; ``changes`` are keys of the recipe or of its objective."""
    from dataclasses import fields

    from sct.training.captioner import config
    from sct.training.captioner.objective_config import ObjectiveConfig

    names = {field.name for field in fields(ObjectiveConfig)}
    objective = {name: changes.pop(name) for name in names & changes.keys()}
    settings = {"max_steps": 6, "batch_size": 4, "validate_every": 1.0, "patience": 0} | changes
    return config.CaptionerRecipe(
        data=str(data),
        out=str(out),
        start=str(start or ""),
        model=config.ModelConfig(word_size=8, hidden_size=8, attention_size=6, feature_size=8, min_count=1),
        examples=config.ExamplesConfig(max_length=8),
        optimizer=settings.pop("optimizer", config.OptimizerConfig(learning_rate=0.01, decay_every=0)),
        objective=ObjectiveConfig(**objective),
        device=config.DeviceConfig(
            accelerator="cpu", devices=devices, strategy="auto" if devices == 1 else "ddp", precision="32-true"
        ),
        **settings,
    )


def make_sorter_recipe(data: Path, out: Path, **changes: Any) -> "SorterRecipe":
    """Sorter recipe of three epochs."""
    from sct.training.sorter.config import SorterRecipe

    settings = {"max_epochs": 3, "batch_size": 10, "learning_rate": 0.01, "patience": 0} | changes
    return SorterRecipe(data=str(data), out=str(out), **settings)
