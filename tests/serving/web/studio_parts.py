"""What the tests of the page share: a captioner of a few words, the browser's name, sizes of screens."""

import shutil
from pathlib import Path

import numpy as np
import torch

from sct.captioner.captioner import Captioner
from sct.language.vocabulary import Vocabulary
from sct.language.word_vectors import WordVectors
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.sorting import ClassOrder, ControlSorter
from tests.colour_vision import ColourVision

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
FEATURES = 6
WORDS = ("a", "the", "man", "dog", "rides", "on")


def tiny_captioner() -> Captioner:
    """Sees colours, says words of no sense, and says others when the control is another."""
    vocabulary = Vocabulary.of_counts({word: 50 - place for place, word in enumerate(WORDS)})
    torch.manual_seed(25)
    sizes = {"feature_size": FEATURES, "word_size": 5, "hidden_size": 7, "attention_size": 4}
    network = build_show_control_tell(CaptionerConfig(vocabulary_size=len(vocabulary), **sizes))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.9)
    vectors = WordVectors("one number", {"red": 0, "green": 1, "blue": 2}, np.ones((3, 1), np.float32))
    sorter = ControlSorter(ClassOrder({"green": 0.0, "blue": 0.5, "red": 1.0}), vectors)
    return Captioner(network, vocabulary, vision=ColourVision(FEATURES), sorter=sorter)
