"""A bundle of random weights that sees colours, and images for it."""

import numpy as np
import torch
from PIL import Image

from sct.captioner.bundle import save_bundle
from sct.language.vocabulary import Vocabulary
from sct.language.word_vectors import WordVectors
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.sorting import ClassOrder, ControlSorter
from tests.colour_vision import ColourVision, quartered

FEATURES = 6
WORDS = ("a", "the", "man", "dog", "rides", "on")
RED, GREEN, BLUE, GREY = (220, 0, 0), (0, 200, 0), (0, 0, 180), (128, 128, 128)
BY_COLOUR = ControlSorter(
    ClassOrder({"green": 0.0, "blue": 0.5, "red": 1.0}),
    WordVectors("one number", {"red": 0, "green": 1, "blue": 2}, np.ones((3, 1), np.float32)),
)


def make_bundle(folder, *, words=WORDS, vision=True, sorter=BY_COLOUR, mode="paper", **speaking):
    vocabulary = Vocabulary.of_counts({word: 50 - place for place, word in enumerate(words)})
    torch.manual_seed(3)
    sizes = {"feature_size": FEATURES, "word_size": 5, "hidden_size": 7, "attention_size": 4}
    network = build_show_control_tell(CaptionerConfig(vocabulary_size=len(vocabulary), mode=mode, **sizes))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.9)
    eyes = ColourVision(FEATURES) if vision else None
    save_bundle(folder, network, vocabulary, sorter=sorter, vision=eyes, **speaking)
    return folder


def make_images(folder):
    """Three images of 40 x 20, each with other colours."""
    folder.mkdir(parents=True)
    for name, colours in {
        "a.png": (RED, GREEN, GREY, BLUE),
        "b.png": (BLUE, RED, GREEN, GREEN),
        "c.png": (GREY, GREY, GREEN, GREY),
    }.items():
        Image.fromarray(quartered(*colours)).save(folder / name)
    return folder
