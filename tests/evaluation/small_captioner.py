"""Captioner with random weights and a small dataset with layout features."""

import torch

from sct.captioner.captioner import Captioner
from sct.data.dataset import Dataset, Manifest, write_dataset
from sct.data.features import LayoutFeatures
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table, merge_tables
from sct.language.vocabulary import Vocabulary
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.regions import Box, Region
from sct.vision.interface import VisionEncoder
from sct.vision.layout import LayoutEncoder

FEATURES = 6
WORDS = ("a", "the", "man", "horse", "dog", "rides", "on", "with")
CLASSES = ("dog", "horse", "man")


def small_captioner(
    seed: int = 11, vision: VisionEncoder | None = None, length_penalty: float = 0.0, **config
) -> Captioner:
    vocabulary = Vocabulary.from_counts({word: 50 - index for index, word in enumerate(WORDS)})
    model_config = CaptionerConfig(
        vocabulary_size=len(vocabulary),
        **({"feature_size": FEATURES, "word_size": 5, "hidden_size": 7, "attention_size": 4} | config),
    )
    torch.manual_seed(seed)  # 11 generates captions of maximum length, 13 also empty ones
    network = build_show_control_tell(model_config)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return Captioner(
        network, vocabulary, encoder=LayoutEncoder(CLASSES, FEATURES), vision=vision, length_penalty=length_penalty
    )


def make_image(image_id: str, *captions: tuple[str, ...], split: str = "val") -> AnnotatedImage:
    """Image of a dog, a horse and two men; captions are given as the class names that they mention."""
    members = {"dog": (0,), "horse": (1,), "man": (2, 3)}
    made = [
        Caption(
            " and ".join(names), names, tuple(range(len(names))), tuple(Chunk(name, members[name]) for name in names)
        )
        for names in captions
    ]
    regions = [Region(Box(10 * index, 5, 10 * index + 9, 40), name) for index, name in enumerate([*CLASSES, "man"])]
    return AnnotatedImage(
        image_id=image_id, split=split, width=50, height=50, regions=tuple(regions), captions=tuple(made)
    )


IMAGES = (
    make_image("1", ("man", "horse"), ("horse",), ("man", "horse")),
    make_image("2", ("dog", "man", "horse"), ("man", "dog")),
    make_image("3", ("dog",), split="train"),
)


def small_dataset(folder, images=IMAGES, source="test") -> Dataset:
    table, vocabulary = merge_tables([build_table(images)])
    manifest = Manifest(
        source=source,
        mode="paper",
        settings={},
        image_folder=None,
        num_images=len(images),
        num_captions=sum(len(image.captions) for image in images),
    )
    write_dataset(folder, table, vocabulary, manifest)
    return Dataset.open(folder)


def layout_features(captioner: Captioner, dataset: Dataset) -> LayoutFeatures:
    assert captioner.encoder is not None
    return LayoutFeatures(captioner.encoder, dataset.table)
