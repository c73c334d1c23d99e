"""A captioner with random weights on a dataset made by hand, with features told by class and box."""

import torch

from sct.captioner.captioner import Captioner
from sct.data.dataset import Dataset, Manifest, write_dataset
from sct.data.features import LayoutFeatures
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import join, pack
from sct.language.vocabulary import Vocabulary
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.regions import Box, Region
from sct.vision.interface import Vision
from sct.vision.layout import LayoutEncoder

FEATURES = 6
WORDS = ("a", "the", "man", "horse", "dog", "rides", "on", "with")
CLASSES = ("dog", "horse", "man")


def small_captioner(seed: int = 11, vision: Vision | None = None, length_penalty: float = 0.0, **choices) -> Captioner:
    vocabulary = Vocabulary.of_counts({word: 50 - place for place, word in enumerate(WORDS)})
    config = CaptionerConfig(
        vocabulary_size=len(vocabulary),
        **({"feature_size": FEATURES, "word_size": 5, "hidden_size": 7, "attention_size": 4} | choices),
    )
    torch.manual_seed(seed)  # 11 talks on and on, 13 also falls silent
    network = build_show_control_tell(config)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return Captioner(
        network, vocabulary, encoder=LayoutEncoder(CLASSES, FEATURES), vision=vision, length_penalty=length_penalty
    )


def annotated(image_id: str, *captions: tuple[str, ...], split: str = "val") -> AnnotatedImage:
    """An image with a dog, a horse and two men; a caption is the class names that it mentions."""
    members = {"dog": (0,), "horse": (1,), "man": (2, 3)}
    said = [
        Caption(
            " and ".join(names), names, tuple(range(len(names))), tuple(Chunk(name, members[name]) for name in names)
        )
        for names in captions
    ]
    regions = [Region(Box(10 * place, 5, 10 * place + 9, 40), name) for place, name in enumerate([*CLASSES, "man"])]
    return AnnotatedImage(
        image_id=image_id, split=split, width=50, height=50, regions=tuple(regions), captions=tuple(said)
    )


IMAGES = (
    annotated("1", ("man", "horse"), ("horse",), ("man", "horse")),
    annotated("2", ("dog", "man", "horse"), ("man", "dog")),
    annotated("3", ("dog",), split="train"),
)


def small_dataset(folder, images=IMAGES, source="by hand") -> Dataset:
    table, vocabulary = join([pack(images)])
    manifest = Manifest(
        source=source,
        mode="paper",
        settings={},
        image_folder=None,
        images=len(images),
        captions=sum(len(image.captions) for image in images),
    )
    write_dataset(folder, table, vocabulary, manifest)
    return Dataset.open(folder)


def layout_features(captioner: Captioner, dataset: Dataset) -> LayoutFeatures:
    assert captioner.encoder is not None
    return LayoutFeatures(captioner.encoder, dataset.table)
