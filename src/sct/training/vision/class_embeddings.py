"""Class embeddings: word vectors of class names, whose expectation is appended to region features."""

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

_SUFFIXES = ("", "s", "es")
"""Class names are singular, and some nouns have a vector in the plural only ("goggles", "sunglasses")."""


def class_name_embeddings(class_names: Sequence[str], nouns: NounTable) -> Float[Tensor, "classes size"]:
    """Mean word vector of each class name, scaled to norm sqrt(size); zeros if no word has a vector.

    >>> nouns = NounTable.from_vectors(["dog", "goggles"], np.array([[2.0, 0.0], [3.0, 4.0]]), "two numbers")
    >>> (class_name_embeddings(["dog", "goggle", "hot dog", "ufo"], nouns) / math.sqrt(2)).tolist()
    [[1.0, 0.0], [0.6..., 0.8...], [1.0, 0.0], [0.0, 0.0]]
    """
    embeddings = np.zeros((len(class_names), nouns.units.shape[1]), np.float32)
    for row, name in enumerate(class_names):
        known = [unit for unit in (_unit_vector(word, nouns) for word in name.split()) if unit is not None]
        if known:
            mean = np.mean(known, axis=0)
            embeddings[row] = mean / max(float(np.linalg.norm(mean)), 1e-9)
    if not embeddings.any():
        raise InputError(f"none of the {len(class_names)} class names has a vector in a table of {len(nouns)} nouns")
    return torch.from_numpy(embeddings) * math.sqrt(embeddings.shape[1])


def _unit_vector(word: str, nouns: NounTable) -> Float[np.ndarray, " size"] | None:
    """Vector of the first form of a word that has one."""
    for row in nouns.indices([word + suffix for suffix in _SUFFIXES]):
        if row != NO_NOUN and nouns.units[row].any():
            unit: np.ndarray = nouns.units[row]
            return unit
    return None


def require_nouns(dataset: Dataset, folder: str) -> NounTable:
    """Noun table of a dataset; raises if it has none."""
    if dataset.nouns is None:
        raise InputError(f"{folder} has no noun table, which class embeddings need: prepare it again, sct prepare")
    return dataset.nouns


def append_class_embeddings(encoder: RegionVisionEncoder, nouns: NounTable) -> RegionVisionEncoder:
    """Copy of a vision encoder whose features include class embeddings; nothing is trained."""
    embeddings = class_name_embeddings(encoder.class_names, nouns)
    network = RegionEncoder(replace(encoder.network.config, class_embedding_size=embeddings.shape[1]))
    network.load_state_dict({**encoder.network.state_dict(), "class_embeddings": embeddings})
    return RegionVisionEncoder(network, encoder.class_names, num_proposals=encoder.num_proposals)
