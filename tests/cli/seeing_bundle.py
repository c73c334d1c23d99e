"""A bundle of random weights that sees colours, and pictures for it."""

import numpy as np
import torch
from colour_vision import ColourVision, quartered
from PIL import Image

from sct.language.vectors import WordVectors
from sct.language.vocabulary import Vocabulary
from sct.model.assembly import assemble
from sct.model.bundle import save_bundle
from sct.model.config import CaptionerConfig
from sct.sorting import ClassOrder, SetSorter

FEATURES = 6
WORDS = ("a", "the", "man", "dog", "rides", "on")
RED, GREEN, BLUE, GREY = (220, 0, 0), (0, 200, 0), (0, 0, 180), (128, 128, 128)
BY_COLOUR = SetSorter(
    ClassOrder({"green": 0.0, "blue": 0.5, "red": 1.0}),
    WordVectors("one number", {"red": 0, "green": 1, "blue": 2}, np.ones((3, 1), np.float32)),
)


def make_bundle(folder, *, words=WORDS, vision=True, sorter=BY_COLOUR, mode="paper", **speaking):
    vocabulary = Vocabulary.of_counts({word: 50 - place for place, word in enumerate(words)})
    torch.manual_seed(3)
    sizes = {"feature_size": FEATURES, "word_size": 5, "hidden_size": 7, "attention_size": 4}
    network = assemble(CaptionerConfig(vocabulary_size=len(vocabulary), mode=mode, **sizes))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.9)
    eyes = ColourVision(FEATURES) if vision else None
    save_bundle(folder, network, vocabulary, sorter=sorter, vision=eyes, **speaking)
    return folder


def make_pictures(folder):
    """Three pictures of 40 x 20, each with other colours."""
    folder.mkdir(parents=True)
    for name, colours in {
        "a.png": (RED, GREEN, GREY, BLUE),
        "b.png": (BLUE, RED, GREEN, GREEN),
        "c.png": (GREY, GREY, GREEN, GREY),
    }.items():
        Image.fromarray(quartered(*colours)).save(folder / name)
    return folder
