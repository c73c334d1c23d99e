"""Class words: what a region may be called, told to captioners by word vectors beside how it looks."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sct.data.dataset import Dataset
from sct.errors import InputError
from sct.language.noun_table import NO_NOUN, NounTable
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.region_network import RegionEncoder

_ENDINGS = ("", "s", "es")
"""Of the forms of a name that are looked for: names are singular, and nobody writes "goggle" or "sunglass"."""


def name_vectors(names: Sequence[str], nouns: NounTable) -> Float[Tensor, "names size"]:
    """Vectors of names, the mean over the words of each; words without one are passed over.

    All but those of zeros have the length of as many numbers of spread 1, as those of a region's looks are.

    >>> nouns = NounTable.from_vectors(["dog", "goggles"], np.array([[2.0, 0.0], [3.0, 4.0]]), "two numbers")
    >>> (name_vectors(["dog", "goggle", "hot dog", "ufo"], nouns) / math.sqrt(2)).tolist()
    [[1.0, 0.0], [0.6..., 0.8...], [1.0, 0.0], [0.0, 0.0]]
    """
    vectors = np.zeros((len(names), nouns.units.shape[1]), np.float32)
    for row, name in enumerate(names):
        known = [unit for unit in (_unit(word, nouns) for word in name.split()) if unit is not None]
        if known:
            mean = np.mean(known, axis=0)
            vectors[row] = mean / max(float(np.linalg.norm(mean)), 1e-9)
    if not vectors.any():
        raise InputError(
            f"none of the {len(names)} names has a vector among {len(nouns)} nouns: expected some to be told"
        )
    return torch.from_numpy(vectors) * math.sqrt(vectors.shape[1])


def _unit(word: str, nouns: NounTable) -> Float[np.ndarray, " size"] | None:
    """Vector of the first form of a word that has one."""
    for row in nouns.rows_of([word + ending for ending in _ENDINGS]):
        if row != NO_NOUN and nouns.units[row].any():
            unit: np.ndarray = nouns.units[row]
            return unit
    return None


def nouns_of(dataset: Dataset, folder: str) -> NounTable:
    """The noun table of a dataset, which it must have."""
    if dataset.nouns is None:
        raise InputError(f"{folder} has no noun table, which class words are taken from: make it again, sct prepare")
    return dataset.nouns


def with_class_words(eye: RegionVisionEncoder, nouns: NounTable) -> RegionVisionEncoder:
    """The same eye, whose features also say the words for likely names; nothing of it is trained."""
    vectors = name_vectors(eye.names, nouns)
    network = RegionEncoder(replace(eye.network.config, name_vector_size=vectors.shape[1]))
    network.load_state_dict({**eye.network.state_dict(), "name_vectors": vectors})
    return RegionVisionEncoder(network, eye.names, proposals=eye.num_proposals)
