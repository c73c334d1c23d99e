"""Training of a network that sees, on what people said of the regions of images."""

import logging
import math
import time
from collections import defaultdict
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from sct.data.dataset import Dataset
from sct.data.index import split_number
from sct.errors import InputError
from sct.storage.atomic import atomic_write, lock
from sct.training.captioner.image_features import image_table
from sct.training.captioner.losses import Loss
from sct.training.config import settings_text
from sct.training.metric_logger import MetricLogger, Progress, ProgressLog, ShowProgress, Throughput
from sct.training.vision.augment import View, random_view
from sct.training.vision.class_embeddings import name_vectors, nouns_of
from sct.training.vision.config import VisionRecipe
from sct.training.vision.losses import Describer, Said, described, proposed
from sct.training.vision.metrics import SightScores, score_sight
from sct.training.vision.targets import SightTargets, sight_targets
from sct.vision.box_ops import moved
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import TransformerConfig

logger = logging.getLogger(__name__)

VISION, RECIPE, LOCK = "vision.safetensors", "recipe.toml", ".lock"
_WARM_UP_STEPS, _STEPS_BEFORE_RECORDING, _TOLD_EVERY = 200, 4, 100
_LEAST_RATE = 0.01
_CLIP_NORM = 5.0
_JITTER = 0.03
"""How far boxes are moved, relative to their size: people draw them roughly."""
_SMALLEST_SIDE = 0.004
"""Of a box that is learned from, relative to the image."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SightReport:
    """How a run ended."""

    out: str
    epochs: int
    seconds: float
    val: dict[str, float] | None
    """Scores on the validation split, by name; none where the dataset has no such split."""


@dataclass(frozen=True, slots=True, eq=False)
class _Lessons:
    """What there is to see, on the device."""

    pixels: Tensor
    boxes: Tensor
    is_region: Tensor
    region_row: Tensor
    region_names: Tensor
    region_words: Tensor
    image_words: Tensor

    @classmethod
    def placed(cls, pixels: Tensor, targets: SightTargets, device: torch.device) -> "_Lessons":
        """Move everything to the device."""
        columns = (
            targets.boxes, targets.is_region, targets.region_row, targets.region_names, targets.region_words,
            targets.image_words,
        )  # fmt: skip
        return cls(pixels.to(device), *(torch.from_numpy(column).to(device) for column in columns))

    def said(self, images: Int[Tensor, " images"]) -> Said:
        """What people said of some images."""
        rows = self.region_row[images]
        return Said(self.region_names[rows], self.region_words[rows], self.image_words[images])

    def score(self, network: RegionEncoder, images: Int[Tensor, " images"]) -> SightScores:
        """Score a network on some images."""
        names = self.region_names[self.region_row[images]]
        return score_sight(network, self.pixels[images], self.boxes[images], self.is_region[images], names)


def train_vision(recipe: VisionRecipe, *, show: ShowProgress | None = None) -> SightReport:
    """Train from the recipe to ``vision.safetensors`` in the run's folder; ``show`` is told how it gets on."""
    out = Path(recipe.out)
    if (out / RECIPE).exists():
        raise InputError(f"{out} holds a run already: name another folder, out=DIR")
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("ab") as held, MetricLogger(out) as journal:
        lock(held, out)
        run = _Run(recipe, journal, show or ProgressLog())
        with atomic_write(out / RECIPE) as file:  # from here on the folder holds a run
            file.write(settings_text(recipe).encode("utf-8"))
        return run.go()


class _Run:
    """The state of a run under way."""

    def __init__(self, recipe: VisionRecipe, journal: MetricLogger, show: ShowProgress) -> None:
        self._recipe, self._journal, self._show = recipe, journal, show
        self._device = _device(recipe.device)
        torch.manual_seed(recipe.seed)
        dataset = Dataset.open(Path(recipe.data))
        targets = sight_targets(
            dataset.table, min_class_count=recipe.min_class_count, min_word_count=recipe.min_word_count
        )
        if not targets.names or not targets.words:
            raise InputError(
                f"no name of {recipe.data} is given {recipe.min_class_count} times, or no word said "
                f"{recipe.min_word_count} times: lower min_class_count and min_word_count"
            )
        self._names = targets.names
        self._lessons = _Lessons.placed(image_table(dataset, recipe.image_folder, recipe.side), targets, self._device)
        self._train, self._val = (_images(dataset, split).to(self._device) for split in ("train", "val"))
        if not len(self._train):
            raise InputError(f"{recipe.data} has no training image with regions: expected some to learn from")
        vectors = name_vectors(targets.names, nouns_of(dataset, recipe.data)) if recipe.class_words else None
        config = RegionEncoderConfig(
            num_classes=len(targets.names),
            side=recipe.side,
            feature_size=recipe.feature_size,
            name_vector_size=0 if vectors is None else vectors.shape[1],
            transformer=TransformerConfig(width=recipe.width, heads=recipe.heads, depth=recipe.depth),
        )
        self._network = RegionEncoder(config, drop_path=recipe.drop_path)
        if vectors is not None:
            self._network.name_vectors.copy_(vectors)
        if recipe.backbone:
            _start_from(self._network, Path(recipe.backbone))
        self._network.to(self._device).train()
        self._describer = Describer(config.feature_size, len(targets.words)).to(self._device)
        self._step = _Step(self._network, self._describer, recipe, self._device)

    def go(self) -> SightReport:
        """Go through all epochs."""
        recipe, begun = self._recipe, time.monotonic()
        batch_size = min(recipe.batch_size, len(self._train))
        per_epoch = len(self._train) // batch_size
        pace, step, last = Throughput(batch_size), 0, per_epoch * recipe.epochs
        scores: SightScores | None = None
        for epoch in range(1, recipe.epochs + 1):
            order = self._train[torch.randperm(len(self._train), device=self._device)]
            for images in order[: per_epoch * batch_size].split(batch_size):
                self._step(self._drawn(images), self._lessons.said(images), _rate(step, last))
                step += 1
                if step % _TOLD_EVERY == 0 or step == last:
                    self._tell(step, last, per_epoch, pace)
            if epoch % recipe.validate_every == 0 or epoch == recipe.epochs:
                self._refuse_bad_weights(step)
                scores = self._validate(step)
                RegionVisionEncoder(self._network, self._names, device=self._device).save(Path(recipe.out) / VISION)
                self._network.train()
        return SightReport(
            out=recipe.out,
            epochs=recipe.epochs,
            seconds=time.monotonic() - begun,
            val=None if scores is None else scores.named(),
        )

    def _drawn(self, images: Int[Tensor, " images"]) -> View:
        lessons = self._lessons
        return random_view(lessons.pixels[images], lessons.boxes[images], lessons.is_region[images])

    def _validate(self, step: int) -> SightScores | None:
        if not len(self._val):
            return None
        scores = self._lessons.score(self._network, self._val)
        self._journal.record("validation", step, scores.named())
        logger.info("step %s, validation: %s", step, ", ".join(f"{k} {v:.3f}" for k, v in scores.named().items()))
        return scores

    def _refuse_bad_weights(self, step: int) -> None:
        """Save nothing that has gone wrong."""
        if not all(torch.isfinite(weight).all() for weight in self._network.parameters()):
            raise InputError(f"the weights at step {step} are not finite: lower learning_rate")

    def _tell(self, step: int, last: int, per_epoch: int, pace: Throughput) -> None:
        parts = self._step.report()
        if not all(math.isfinite(value) for value in parts.values()):
            raise InputError(f"the loss before step {step} is not finite: lower learning_rate")
        pace.mark(step)
        self._journal.record("train", step, {**parts, "epoch": step / per_epoch})
        self._show(
            Progress(
                step=step,
                epoch=step / per_epoch,
                captions_per_second=pace.captions_per_second,
                losses={name: parts[name] for name in ("names", "region_words", "image_words", "worth")},
                reward=None,
                learning_rate=self._recipe.learning_rate * _rate(step - 1, last),
                seconds_left=pace.seconds_for(last - step),
            )
        )


class _Step:
    """One step of learning to see; on a GPU it is recorded once and replayed."""

    def __init__(
        self, network: RegionEncoder, describer: Describer, recipe: VisionRecipe, device: torch.device
    ) -> None:
        self._network, self._describer, self._device = network, describer, device
        groups = _groups(network, describer, recipe)
        self._rates = [float(group["lr"]) for group in groups]
        self._weights = [weight for group in groups for weight in group["params"]]
        on_gpu = device.type == "cuda"
        if on_gpu:
            groups = [{**group, "lr": torch.tensor(group["lr"], device=device)} for group in groups]
        self._optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.99), fused=on_gpu, capturable=on_gpu)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._given: list[Tensor] = []
        self._totals: Tensor | None = None
        self._part_names: tuple[str, ...] = ()
        self._taken = self._since = 0

    def __call__(self, view: View, said: Said, rate: float) -> None:
        """Learn from a view of some images, at a share of the learning rates."""
        for group, full in zip(self._optimiser.param_groups, self._rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(full * rate)  # a recorded step reads it from there
            else:
                group["lr"] = full * rate
        given = [*_tensors(view), *_tensors(said)]
        self._since += 1
        self._taken += 1
        if self._device.type != "cuda":
            self._take(given)
        elif self._taken <= _STEPS_BEFORE_RECORDING:
            stream = torch.cuda.Stream(self._device)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):  # not the usual stream, as recording demands
                self._take(given)
            torch.cuda.current_stream().wait_stream(stream)
        else:
            if self._graph is None:
                self._given = [tensor.clone() for tensor in given]
                self._graph = torch.cuda.CUDAGraph()
                self._optimiser.zero_grad(set_to_none=True)
                with torch.cuda.graph(self._graph):
                    self._take(self._given)
            for place, tensor in zip(self._given, given, strict=True):
                place.copy_(tensor)
            self._graph.replay()

    def report(self) -> dict[str, float]:
        """Means of all parts over the steps since the last report."""
        if self._totals is None or not self._since:
            return {}
        means = (self._totals / self._since).tolist()
        self._totals.zero_()
        self._since = 0
        return dict(zip(self._part_names, means, strict=True))

    def _take(self, given: list[Tensor]) -> None:
        view, said = View(*given[:4]), Said(*given[4:])
        self._optimiser.zero_grad(set_to_none=True)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            loss = self._loss(view, said)
        loss.total.backward()
        nn.utils.clip_grad_norm_(self._weights, _CLIP_NORM)
        self._optimiser.step()
        parts = torch.stack(list(loss.parts.values()))
        if self._totals is None:
            self._totals, self._part_names = torch.zeros_like(parts), tuple(loss.parts)
        self._totals += parts

    def _loss(self, view: View, said: Said) -> Loss:
        rough = moved(view.boxes, torch.randn_like(view.boxes) * _JITTER)
        is_box = (rough[..., 2:] - rough[..., :2]).amin(-1) > _SMALLEST_SIDE
        rough = torch.where(is_box[..., None], rough, view.whole)
        maps = self._network.look(view.pixels)
        whole = view.whole.expand(len(rough), 1, -1)
        features = self._network.looks(maps, torch.cat([rough, whole], dim=1))
        first = described(
            self._network, self._describer, features[:, :-1], features[:, -1], view.is_seen & is_box, said
        )
        second = proposed(self._network, maps, view)
        return Loss(first.total + second.total, {**first.parts, **second.parts})


def _tensors(record: View | Said) -> list[Tensor]:
    return [getattr(record, field.name) for field in fields(record)]


def _groups(network: RegionEncoder, describer: Describer, recipe: VisionRecipe) -> list[dict[str, Any]]:
    """Weights by learning rate: that of the transformer falls from layer to layer; only matrices decay."""
    depth = network.config.transformer.depth
    by_rate: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    for name, weight in [*network.named_parameters(), *describer.named_parameters()]:
        rate = recipe.learning_rate
        if name.startswith("transformer."):
            layer = int(name.split(".")[2]) + 1 if ".blocks." in name else depth + 1 if ".norm." in name else 0
            rate = recipe.backbone_learning_rate * recipe.layer_decay ** (depth + 1 - layer)
        by_rate[rate, recipe.weight_decay if weight.dim() > 1 else 0.0].append(weight)
    return [{"params": weights, "lr": rate, "weight_decay": decay} for (rate, decay), weights in by_rate.items()]


def _rate(step: int, last: int) -> float:
    """Share of the learning rate: up in a line, then down along a cosine.

    >>> [round(_rate(step, 1000), 2) for step in (0, 199, 500, 999)]
    [0.01, 0.91, 0.51, 0.01]
    """
    rise = min(1.0, (step + 1) / _WARM_UP_STEPS)
    return rise * (_LEAST_RATE + (1 - _LEAST_RATE) * (1 + math.cos(math.pi * step / last)) / 2)


def _images(dataset: Dataset, split: str) -> Int[Tensor, " images"]:
    """Rows of a split's images that have regions."""
    if split not in dataset.table.splits:
        return torch.zeros(0, dtype=torch.long)
    columns = dataset.table.columns
    is_in = columns["image_split"] == split_number(dataset.table, split)
    return torch.from_numpy(np.flatnonzero(is_in & (np.diff(columns["image_region"].astype(np.int64)) > 0)))


def _start_from(network: RegionEncoder, path: Path) -> None:
    """Take a transformer's weights from a file."""
    try:
        weights = load_file(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{path} does not exist: expected the weights of a vision transformer, backbone=FILE"
        ) from error
    except SafetensorError as error:
        raise InputError(f"{path} is no whole safetensors file ({error}): make it again") from error
    try:
        network.transformer.load_state_dict({name: weight.float() for name, weight in weights.items()})
    except RuntimeError as error:
        raise InputError(f"{path} does not fit the transformer ({str(error).splitlines()[-1].strip()})") from error


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device is 'cuda', and there is none: expected cpu or auto")
    return torch.device(name)
