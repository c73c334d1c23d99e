"""Trainer of the vision encoder: region classes, words and proposals, from images with human boxes."""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from sct.data.dataset import Dataset
from sct.data.index import split_index
from sct.data.table import TRAINING_SPLIT, VALIDATION_SPLIT
from sct.errors import InputError
from sct.storage.state_dict import check_state_dict
from sct.training.config import split_list
from sct.training.cuda_graph_step import LossModule, OptimizerStep
from sct.training.loss import Loss
from sct.training.metric_logger import MetricLogger, OnProgress, ProgressLogger, Throughput, TrainingProgress
from sct.training.pixel_table import load_pixel_table
from sct.training.run_dir import RunDir
from sct.training.vision.augment import AugmentedBatch
from sct.training.vision.class_embeddings import class_name_embeddings, require_nouns
from sct.training.vision.config import VisionRecipe
from sct.training.vision.data import VisionData
from sct.training.vision.losses import RegionTargets, vision_loss
from sct.training.vision.targets import VisionTargets, build_targets
from sct.vision.encoder import RegionVisionEncoder, load_vision
from sct.vision.region_network import RegionEncoder, RegionEncoderConfig
from sct.vision.vit import ViTConfig

logger = logging.getLogger(__name__)

VISION = "vision.safetensors"
WARMUP_STEPS, LOG_EVERY = 200, 100
_MIN_LR_SCALE = 0.01
_CLIP_NORM = 5.0
_MAX_VALIDATION_IMAGES = 1000
"""Of each kind, human-grounded or not; ``benchmarks/quality/vision_encoder.py`` measures all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisionReport:
    """Result of a run."""

    out: str
    epochs: int
    seconds: float
    val: dict[str, float] | None
    """Scores on the validation split by name; None if the dataset has no such split."""

    def summary(self) -> str:
        """Format for a terminal."""
        scores = "" if self.val is None else ", ".join(f"{name} {value:.3f}" for name, value in self.val.items())
        return f"{self.out}: {self.epochs} epochs, {self.seconds:.0f} seconds\n  val: {scores or 'no such split'}"


def train_vision(recipe: VisionRecipe, *, on_progress: OnProgress | None = None) -> VisionReport:
    """Train a vision encoder and write ``vision.safetensors`` into the run directory."""
    with (
        RunDir.create(Path(recipe.out), recipe, outputs=(VISION,)) as run_dir,
        run_dir.metric_logger() as metrics,
    ):
        return _VisionTrainer(recipe, metrics, on_progress or ProgressLogger()).run()


class _VisionTrainer:
    """State of a run."""

    def __init__(self, recipe: VisionRecipe, metrics: MetricLogger, on_progress: OnProgress) -> None:
        self._recipe, self._metrics, self._on_progress = recipe, metrics, on_progress
        self._device = device = _resolve_device(recipe.device)
        torch.manual_seed(recipe.seed)
        dataset = Dataset.open(Path(recipe.data))
        train, val = (_images_with_regions(dataset, split) for split in (TRAINING_SPLIT, VALIDATION_SPLIT))
        if not len(train):
            raise InputError(f"{recipe.data} has no training image with regions: expected at least one")
        self._targets = targets = build_targets(
            dataset,
            min_class_count=recipe.min_class_count,
            min_noun_count=recipe.min_noun_count,
            min_word_count=recipe.min_word_count,
        )
        pixels = load_pixel_table(dataset, split_list(recipe.images), recipe.image_size)
        self._data = VisionData.on_device(pixels, targets, device)
        human_grounded = torch.from_numpy(targets.human_grounded)
        repetitions = torch.where(human_grounded[train], recipe.human_oversampling, 1)
        self._train = train.repeat_interleave(repetitions).to(device)
        self._val = {
            name: val[is_kind][:_MAX_VALIDATION_IMAGES].to(device)
            for name, is_kind in (("human_grounded", human_grounded[val]), ("auto_grounded", ~human_grounded[val]))
            if is_kind.any()
        }
        self._network = _build_network(recipe, dataset, targets).to(device).train()
        self._averaged = _MovingAverage(self._network, recipe.ema_decay)
        if recipe.compile and device.type == "cuda":
            self._network.backbone.compile()  # after the copy for averaging, which is validated as it is
        groups = parameter_groups(self._network, recipe)
        self._learning_rates = [float(group["lr"]) for group in groups]
        self._step = OptimizerStep(
            LossModule(self._network, self._loss),
            _make_adamw(groups, device),
            clip_norm=_CLIP_NORM,
            capture=device.type == "cuda",
        )
        self._batch_size = min(recipe.batch_size, len(self._train))
        self._steps_per_epoch = len(self._train) // self._batch_size
        self._last_step = self._steps_per_epoch * recipe.epochs
        self._throughput = Throughput(self._batch_size)

    def run(self) -> VisionReport:
        """Train for all epochs."""
        recipe, start, step = self._recipe, time.monotonic(), 0
        scores: dict[str, float] | None = None
        for epoch in range(1, recipe.epochs + 1):
            shuffled = self._train[torch.randperm(len(self._train), device=self._device)]
            for images in shuffled[: self._steps_per_epoch * self._batch_size].split(self._batch_size):
                batch, targets = self._data.batch(images)
                inputs = [*_tensors(batch), *_tensors(targets)]
                scale = lr_scale(step, self._last_step)
                self._step(inputs, [learning_rate * scale for learning_rate in self._learning_rates])
                self._averaged.update_parameters(self._network)
                step += 1
                if step % LOG_EVERY == 0 or step == self._last_step:
                    self._log(step)
            if epoch % recipe.validate_every == 0 or epoch == recipe.epochs:
                self._check_weights(step)
                encoder = RegionVisionEncoder(
                    self._averaged.module,
                    self._targets.class_names,
                    words=self._targets.words,
                    attributes=self._targets.attributes,
                    device=self._device,
                )
                encoder.save(Path(recipe.out) / VISION)
                scores = self._validate(encoder.network, step)
        return VisionReport(
            out=recipe.out,
            epochs=recipe.epochs,
            seconds=time.monotonic() - start,
            val=scores,
        )

    def _loss(self, network: nn.Module, *inputs: Tensor) -> Loss:
        assert isinstance(network, RegionEncoder)
        num_fields = len(fields(AugmentedBatch))
        batch, targets = AugmentedBatch(*inputs[:num_fields]), RegionTargets(*inputs[num_fields:])
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            return vision_loss(network, batch, targets, unsure_negative_weight=self._recipe.unsure_negative_weight)

    def _validate(self, network: RegionEncoder, step: int) -> dict[str, float] | None:
        """Score images with human-grounded captions and others apart: what their boxes cover differs."""
        if not self._val:
            return None
        scores = {
            f"{name}_{metric}" if len(self._val) > 1 else metric: value
            for name, images in self._val.items()
            for metric, value in self._data.score(network, images).as_dict().items()
        }
        self._metrics.log("validation", step, scores)
        logger.info("step %s, validation: %s", step, ", ".join(f"{k} {v:.3f}" for k, v in scores.items()))
        return scores

    def _check_weights(self, step: int) -> None:
        """Raise instead of saving non-finite weights."""
        if not all(torch.isfinite(weight).all() for weight in self._network.parameters()):
            raise InputError(f"the weights at step {step} are not finite: lower learning_rate")

    def _log(self, step: int) -> None:
        terms = self._step.means()
        bad_step = self._step.first_bad_step()
        if bad_step is not None:
            raise InputError(f"the loss of step {bad_step + 1} or its gradient is not finite: lower learning_rate")
        self._throughput.update(step)
        epoch = step / self._steps_per_epoch
        self._metrics.log("train", step, {**terms, "epoch": epoch})
        self._on_progress(
            TrainingProgress(
                step=step,
                epoch=epoch,
                throughput=self._throughput.examples_per_second,
                unit="images",
                losses={
                    name: terms[name] for name in ("classes", "boxed_mil", "mil", "region_words", "roi_objectness")
                },
                learning_rate=self._recipe.learning_rate * lr_scale(step - 1, self._last_step),
                seconds_left=self._throughput.seconds_for(self._last_step - step),
            )
        )


def _build_network(recipe: VisionRecipe, dataset: Dataset, targets: VisionTargets) -> RegionEncoder:
    embeddings = None
    if recipe.append_class_embeddings:
        embeddings = class_name_embeddings(targets.class_names, require_nouns(dataset, recipe.data))
    config = RegionEncoderConfig(
        num_classes=len(targets.class_names),
        num_words=len(targets.words),
        map_scale=recipe.map_scale,
        roi_size=recipe.roi_size,
        image_size=recipe.image_size,
        feature_size=recipe.feature_size,
        class_embedding_size=0 if embeddings is None else embeddings.shape[1],
        vit=ViTConfig(width=recipe.width, num_heads=recipe.heads, depth=recipe.depth),
    )
    network = RegionEncoder(config, drop_path=recipe.drop_path)
    if embeddings is not None:
        network.class_embeddings.copy_(embeddings)
    if recipe.init_from:
        _load_weights(network, targets, Path(recipe.init_from))
    elif recipe.backbone:
        _load_backbone(network, Path(recipe.backbone))
    return network


def _load_weights(network: RegionEncoder, targets: VisionTargets, path: Path) -> None:
    """Load the weights of a vision encoder with the same class names and words; the image size may differ."""
    encoder = load_vision(path)
    if not isinstance(encoder, RegionVisionEncoder):
        raise InputError(f"{path} is an encoder of the Hugging Face Hub: expected one of a run with task = 'vision'")
    for kind, expected, found in (
        ("class names", targets.class_names, encoder.class_names),
        ("words", targets.words, encoder.words),
    ):
        if found != expected:
            raise InputError(
                f"{path} has {len(found)} {kind}, expected the {len(expected)} of the dataset: train on the same data "
                "with the same minimum counts"
            )
    weights = encoder.network.state_dict()
    check_state_dict(weights, {name: tuple(weight.shape) for name, weight in network.state_dict().items()}, path)
    network.load_state_dict(weights)


class _MovingAverage(AveragedModel):
    """Exponential moving average of a network; its decay grows in the first steps, so that initial weights fade."""

    module: RegionEncoder

    def __init__(self, network: RegionEncoder, decay: float) -> None:
        def update(averages: Sequence[Tensor], weights: Sequence[Tensor], num_averaged: Tensor | int) -> None:
            momentum = 1 - min(decay, (1 + int(num_averaged)) / (10 + int(num_averaged)))
            for average, weight in zip(averages, weights, strict=True):
                average.lerp_(weight, momentum)

        super().__init__(network, multi_avg_fn=update)


def _make_adamw(groups: list[dict[str, Any]], device: torch.device) -> torch.optim.AdamW:
    on_gpu = device.type == "cuda"
    if on_gpu:  # a captured step reads learning rates from tensors
        groups = [{**group, "lr": torch.tensor(group["lr"], device=device)} for group in groups]
    return torch.optim.AdamW(groups, betas=(0.9, 0.99), fused=on_gpu, capturable=on_gpu)


def parameter_groups(network: RegionEncoder, recipe: VisionRecipe) -> list[dict[str, Any]]:
    """Parameters by learning rate and weight decay: layer-wise decay in the backbone, no weight decay on vectors."""
    depth = network.config.vit.depth
    groups: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in network.named_parameters():
        learning_rate = recipe.learning_rate
        if name.startswith("backbone."):
            layer = int(name.split(".")[2]) + 1 if ".blocks." in name else depth + 1 if ".norm." in name else 0
            learning_rate = recipe.backbone_learning_rate * recipe.layer_decay ** (depth + 1 - layer)
        groups[learning_rate, recipe.weight_decay if parameter.dim() > 1 else 0.0].append(parameter)
    return [
        {"params": parameters, "lr": learning_rate, "weight_decay": decay}
        for (learning_rate, decay), parameters in groups.items()
    ]


def lr_scale(step: int, last_step: int) -> float:
    """Learning-rate factor: linear warmup, then cosine decay.

    >>> [round(lr_scale(step, 1000), 2) for step in (0, 199, 500, 999)]
    [0.01, 0.91, 0.51, 0.01]
    """
    warmup = min(1.0, (step + 1) / WARMUP_STEPS)
    return warmup * (_MIN_LR_SCALE + (1 - _MIN_LR_SCALE) * (1 + math.cos(math.pi * step / last_step)) / 2)


def _tensors(record: AugmentedBatch | RegionTargets) -> list[Tensor]:
    return [getattr(record, field.name) for field in fields(record)]


def _images_with_regions(dataset: Dataset, split: str) -> Int[Tensor, " images"]:
    """Indices of the images of a split that have regions."""
    if split not in dataset.table.splits:
        return torch.zeros(0, dtype=torch.long)
    columns = dataset.table.columns
    in_split = columns["image_split"] == split_index(dataset.table, split)
    return torch.from_numpy(np.flatnonzero(in_split & (np.diff(columns["region_offsets"].astype(np.int64)) > 0)))


def _load_backbone(network: RegionEncoder, path: Path) -> None:
    """Load ViT weights from a file."""
    try:
        weights = load_file(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{path} does not exist: expected ViT weights; the recipe's header says what makes them, backbone= trains "
            "without"
        ) from error
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a complete safetensors file ({error}): write it again") from error
    check_state_dict(
        weights, {name: tuple(weight.shape) for name, weight in network.backbone.state_dict().items()}, path
    )
    network.backbone.load_state_dict({name: weight.float() for name, weight in weights.items()})


def _resolve_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device is 'cuda', but there is no GPU: expected cpu or auto")
    return torch.device(name)
