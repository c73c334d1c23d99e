"""Captions of a finished run, kept beside it with what they were made of.

``RUN/evaluation/PROTOCOL-SPLIT/`` has ``predictions.jsonl`` and ``made_of.json``. Where the run's bundle is at hand,
the captions must be of it; where it is not, because captions were brought from another machine and bundles were not,
they are taken at their word. They must be of the dataset in any case.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from sct.atomic import written_whole
from sct.captioning import Captioner, load
from sct.data.dataset import TABLE, Dataset
from sct.data.features import Features, ImageFeatures, features_for
from sct.errors import InputError
from sct.evaluation.predict import DatasetSorter
from sct.evaluation.predictions import write_predictions
from sct.evaluation.protocol import PREDICTIONS, EvaluationSettings, Evaluator
from sct.model.bundle import CONFIG, VISION
from sct.regions.sight import NetworkVision
from sct.sorting import load_sorter
from sct.sorting.saving import CONFIG as SORTER_CONFIG

CaptionProtocol = Literal["sequence", "set", "diversity"]
CAPTIONS_OF_AN_IMAGE = 20
"""What the paper's table of diversity has of each image."""
EVALUATION, MADE_OF = "evaluation", "made_of.json"


@dataclass(frozen=True, slots=True)
class PredictionPlace:
    """Captions of a run by a protocol."""

    run: Path
    protocol: CaptionProtocol
    split: str

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self.run / EVALUATION / f"{self.protocol}-{self.split}"

    @property
    def file(self) -> Path:
        """The captions."""
        return self.folder / PREDICTIONS


class Speaker:
    """Has bundles caption a split of a dataset; what several of them need is read once."""

    def __init__(self, data: Path, split: str, *, device: str, pictures: Path | None = None) -> None:
        """``pictures`` is where the dataset's are, if they have moved."""
        self._folder, self._split, self._device = data, split, device
        self._pictures = "" if pictures is None else str(pictures)
        self._seen: dict[str, Features] = {}

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset; to take captions that are there, nobody has to wait for it."""
        return Dataset.open(self._folder)

    @cached_property
    def _data_name(self) -> str:
        return _digest(self._folder / TABLE)

    def has_said(self, place: PredictionPlace, best: Path, sorter: Path | None) -> bool:
        """Whether the captions of a run are there, of its bundle as it is now if it is there, and of this dataset."""
        path = place.folder / MADE_OF
        if not (path.is_file() and place.file.is_file()):
            return False
        made_of = json.loads(path.read_text(encoding="utf-8"))
        names = self._names(best, sorter if best.is_dir() else None)
        return all(made_of.get(name) == value for name, value in names.items() if value is not None)

    def say(self, place: PredictionPlace, best: Path, sorter: Path | None) -> None:
        """Caption the split and write the captions down."""
        captioner = load(best, device=self._device)
        features = self._features(captioner, best)
        of_sets = None if sorter is None else DatasetSorter(load_sorter(sorter), self.dataset.table, features)
        control: Literal["sequence", "set"] = "set" if place.protocol == "set" else "sequence"
        settings = EvaluationSettings(split=self._split, control=control)
        evaluator = Evaluator(captioner, self.dataset, features, settings, of_sets)
        lines = evaluator.caption_often(CAPTIONS_OF_AN_IMAGE) if place.protocol == "diversity" else evaluator.caption()
        place.folder.mkdir(parents=True, exist_ok=True)
        (place.folder / MADE_OF).unlink(missing_ok=True)  # it is not of what is written now
        write_predictions(place.file, lines)
        with written_whole(place.folder / MADE_OF) as file:
            file.write(json.dumps(self._names(best, sorter), indent=1).encode("utf-8"))

    def _names(self, best: Path, sorter: Path | None) -> dict[str, str | None]:
        """What captions are made of, by checksums; none for what is not at hand."""
        return {
            "data": self._data_name,
            # The settings of a bundle, and of a sorter, have the checksums of all its other files.
            "bundle": _digest(best / CONFIG) if best.is_dir() else None,
            "sorter": None if sorter is None else _digest(sorter / SORTER_CONFIG),
        }

    def _features(self, captioner: Captioner, best: Path) -> Features:
        """What the bundle was trained with: what it sees in the pictures, or what its encoder makes of boxes."""
        if captioner.vision is None:
            return features_for(self.dataset.table, None, captioner.encoder)
        if not isinstance(captioner.vision, NetworkVision):
            raise InputError(f"{best} sees by something that gives no features of a whole dataset: train another one")
        name = _digest(best / VISION)
        if name not in self._seen:
            self._seen[name] = self._look(captioner.vision)
        return self._seen[name]

    def _look(self, eye: NetworkVision) -> Features:
        from sct.training.picture_features import PictureFeatures  # noqa: PLC0415  only for bundles that see

        table = self.dataset.table
        is_here = table.columns["image_split"] == table.splits.index(self._split)
        images = np.flatnonzero(is_here).tolist()
        features = PictureFeatures(eye, self.dataset, self._pictures, torch.device(self._device))
        return _Remembered(features(images), images)


class _Remembered:
    """Features of some images, looked at once."""

    def __init__(self, known: ImageFeatures, images: Sequence[int]) -> None:
        self._known = known
        self._place = {image: place for place, image in enumerate(images)}

    def __call__(self, images: Sequence[int]) -> ImageFeatures:
        places = [self._place[image] for image in images]
        known = self._known
        return ImageFeatures(known.regions, known.first_row[places], known.image[places])


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
