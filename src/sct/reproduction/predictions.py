"""Captions of a finished run, kept beside it with what they were made of.

``RUN/evaluation/PROTOCOL-SPLIT/`` has ``predictions.jsonl`` and ``made_of.json``, and ``scores.json`` once they were
judged. Where the run's bundle is at hand, the captions must be of it and of this sct; where it is not, because
captions, or figures alone, were brought from another machine, they are taken at their word. They must be of the
dataset, and searched for as now, in any case.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from sct._version import __version__
from sct.captioner.bundle import CONFIG, VISION
from sct.captioner.captioner import Captioner, load
from sct.data.features import Features, ImageFeatures, features_for
from sct.data.index import split_number
from sct.data.samples import ControlKind
from sct.errors import InputError
from sct.evaluation.evaluate import PREDICTIONS, SCORES, EvaluationSettings, Evaluator
from sct.evaluation.oracle import HYPOTHESES_PER_CAPTION, ORDERS_PER_CAPTION
from sct.evaluation.predict import DatasetSorter
from sct.evaluation.predictions import write_predictions
from sct.reproduction.kept import read_kept
from sct.reproduction.stand_in import SubstituteDataset
from sct.sorting import load_sorter
from sct.sorting.serialization import CONFIG as SORTER_CONFIG
from sct.storage.artifacts import sha256_file
from sct.storage.atomic import atomic_write
from sct.vision.interface import NetworkVision

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

    @property
    def scores(self) -> Path:
        """What the metrics say of them."""
        return self.folder / SCORES

    @property
    def has_any(self) -> bool:
        """Whether there are captions or figures, of whatever they may be."""
        return self.file.is_file() or self.scores.is_file()

    @property
    def settings(self) -> EvaluationSettings:
        """How they are said: by the paper's search, whatever a bundle's own is."""
        control: ControlKind = "set" if self.protocol == "set" else "sequence"
        return EvaluationSettings(split=self.split, control=control, length_penalty=0.0)

    def search(self) -> dict[str, Any]:
        """All that decides on captions besides what they are made of, as JSON keeps it."""
        settings = self.settings
        options = asdict(settings.options())
        options = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
        how: dict[str, Any] = {"control": settings.control, "captions_of_an_image": 1}
        if self.protocol == "diversity":
            how = {
                "control": "orders of all sets of the image",
                "captions_of_an_image": CAPTIONS_OF_AN_IMAGE,
                "orders_per_caption": ORDERS_PER_CAPTION,
                "hypotheses_per_caption": HYPOTHESES_PER_CAPTION,
            }
        return {**how, "split": self.split, **options}


class Speaker:
    """Has bundles caption a split of a dataset; what several of them need is read once."""

    def __init__(self, data: SubstituteDataset, split: str, *, device: str, images: Path | None = None) -> None:
        """``images`` is where the dataset's are, if they have moved."""
        self._data, self._split, self._device = data, split, device
        self._images = "" if images is None else str(images)
        self._seen: dict[str, Features] = {}

    def has_said(self, place: PredictionPlace, best: Path, sorter: Path | None) -> bool:
        """Whether the captions of a run are there, of its bundle as it is now if it is there, and of this dataset.

        Where there is no bundle to say them again, their figures do.
        """
        made_of = read_kept(place.folder / MADE_OF)
        if not place.file.is_file():
            judged = read_kept(place.scores).get("predictions")
            if best.is_dir() or judged is None or judged != made_of.get("captions"):
                return False
        expected = self._made_of(place, best, sorter if best.is_dir() else None)
        return all(made_of.get(name) == value for name, value in expected.items() if value is not None)

    def say(self, place: PredictionPlace, best: Path, sorter: Path | None) -> None:
        """Caption the split and write the captions down."""
        captioner = load(best, device=self._device)
        features = self._features(captioner, best)
        dataset = self._data.dataset
        of_sets = None if sorter is None else DatasetSorter(load_sorter(sorter), dataset.table, features)
        evaluator = Evaluator(captioner, dataset, features, place.settings, of_sets)
        lines = (
            evaluator.caption_n_times(CAPTIONS_OF_AN_IMAGE) if place.protocol == "diversity" else evaluator.caption()
        )
        place.folder.mkdir(parents=True, exist_ok=True)
        (place.folder / MADE_OF).unlink(missing_ok=True)  # it is not of what is written now
        write_predictions(place.file, lines)
        made_of = {**self._made_of(place, best, sorter), "captions": sha256_file(place.file)}
        with atomic_write(place.folder / MADE_OF) as file:
            file.write(json.dumps(made_of, indent=1).encode("utf-8"))

    def _made_of(self, place: PredictionPlace, best: Path, sorter: Path | None) -> Mapping[str, object]:
        """What captions are made of, by checksums, and how; none for what is not at hand."""
        return {
            "data": self._data.digest,
            # The settings of a bundle, and of a sorter, have the checksums of all its other files.
            "bundle": sha256_file(best / CONFIG) if best.is_dir() else None,
            "sorter": None if sorter is None else sha256_file(sorter / SORTER_CONFIG),
            "search": place.search(),
            "sct": __version__ if best.is_dir() else None,
        }

    def _features(self, captioner: Captioner, best: Path) -> Features:
        """What the bundle was trained with: what it sees in the images, or what its encoder makes of boxes."""
        if captioner.vision is None:
            return features_for(self._data.dataset.table, None, captioner.encoder)
        if not isinstance(captioner.vision, NetworkVision):
            raise InputError(f"{best} sees by something that gives no features of a whole dataset: train another one")
        name = sha256_file(best / VISION)
        if name not in self._seen:
            self._seen[name] = self._look(captioner.vision)
        return self._seen[name]

    def _look(self, eye: NetworkVision) -> Features:
        from sct.training.captioner.image_features import ImageFeatureExtractor  # noqa: PLC0415

        table = self._data.dataset.table
        is_here = table.columns["image_split"] == split_number(table, self._split)
        images = np.flatnonzero(is_here).tolist()
        features = ImageFeatureExtractor(eye, self._data.dataset, self._images, torch.device(self._device))
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
