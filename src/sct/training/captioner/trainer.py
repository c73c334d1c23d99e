"""Trainer of the captioner: one stage from its recipe to its bundles, on one or several devices, resumable."""

import logging
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sct.captioner.bundle import save_bundle
from sct.errors import InputError
from sct.models.interface import CaptionModel
from sct.storage.toml import TomlValue
from sct.training.captioner.config import CaptionerRecipe, OptimizerConfig
from sct.training.captioner.dataloader import control_noise, dropout_seed, step_noise
from sct.training.captioner.objectives import REWARDS, Objective
from sct.training.captioner.permuted_controls import num_draws
from sct.training.captioner.setup import build_training
from sct.training.checkpoint import Checkpoint
from sct.training.cuda_graph_step import LossModule, OptimizerStep, make_adam
from sct.training.distributed import (
    Interrupts,
    ProcessGroup,
    TrainingPrecision,
    launch,
    make_fabric,
    resolve_precision,
    tf32_matmul,
)
from sct.training.metric_logger import MetricLogger, OnProgress, ProgressLogger, Throughput, TrainingProgress
from sct.training.run_dir import RunDir

logger = logging.getLogger(__name__)

SCORE = "C"
"""Metric by which the best bundle is selected: validation CIDEr-D."""
_LOG_EVERY_SECONDS = 2.0
_STEPS_BETWEEN_SYNCS = 10
_MODEL = "model"
"""Prefix of weights in checkpoints."""
_LOSS_SUMS = "loss_sums"
"""Name of the losses since the last log line in checkpoints."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionerReport:
    """Result of a run."""

    out: str
    step: int
    epochs: float
    seconds: float
    """Training time, over all calls."""
    best_score: float | None
    """Best validation CIDEr-D."""
    finished: bool
    """Whether the recipe is complete; otherwise --resume continues it."""
    reason: str
    """Why the run ended, for people."""

    def summary(self) -> str:
        """Format for a terminal."""
        minutes, seconds = divmod(round(self.seconds), 60)
        progress = f"{self.out}: {self.step:,} steps, {self.epochs:.2f} epochs, {minutes}:{seconds:02} minutes"
        best = "" if self.best_score is None else f"\n  best validation CIDEr {self.best_score:.1f}: {self.out}/best"
        return f"{progress}{best}\n  {self.reason}"


def train_captioner(
    recipe: CaptionerRecipe, *, resume: bool = False, on_progress: OnProgress | None = None
) -> CaptionerReport:
    """Train one stage; progress is logged unless ``on_progress`` is given."""
    precision = resolve_precision(
        recipe.device.precision, recipe.device.accelerator, is_self_critical=recipe.objective.is_self_critical
    )
    fabric = make_fabric(
        accelerator=recipe.device.accelerator,
        devices=recipe.device.devices,
        nodes=recipe.device.nodes,
        strategy=recipe.device.strategy,
        precision=precision,
    )
    launch(fabric)
    with (
        tf32_matmul(precision == "tf32"),
        RunDir.open(Path(recipe.out), recipe, resume=resume, writes=fabric.is_global_zero) as run_dir,
        run_dir.metric_logger() as metrics,
    ):
        return _CaptionerTrainer(recipe, fabric, precision, run_dir, metrics, on_progress or ProgressLogger()).run()


class _CaptionerTrainer:
    """State of a run."""

    def __init__(
        self,
        recipe: CaptionerRecipe,
        fabric: Any,
        precision: TrainingPrecision,
        run_dir: RunDir,
        metrics: MetricLogger,
        on_progress: OnProgress,
    ) -> None:
        self._recipe, self._fabric, self._run_dir = recipe, fabric, run_dir
        self._metrics, self._on_progress = metrics, on_progress
        self._group = ProcessGroup(fabric)
        device = fabric.device
        on_gpu = device.type == "cuda"
        dtype = torch.bfloat16 if on_gpu and precision == "bf16-mixed" else torch.float32
        self._parts = build_training(recipe, device, dtype, self._group.masked_mean)
        self._sampler, self._objective = self._parts.sampler, self._parts.objective
        self._model = self._parts.bundle.model.to(device).train()
        self._optimizer = make_adam(self._model, device)
        self._state = self._initial_state = run_dir.state
        self._check_same_checkpoint()
        if run_dir.checkpoint is not None:
            load_train_tensors(run_dir.checkpoint, self._model, self._optimizer, self._objective)
        module = LossModule(self._model, self._objective)
        wrapped, optimizer = fabric.setup(module, self._optimizer)
        is_local = fabric.world_size == 1 and self._parts.loader.storage_device == device
        self._step = OptimizerStep(
            module,
            optimizer,
            forward=wrapped,
            backward=fabric.backward,
            clip_norm=recipe.optimizer.clip_norm,
            capture=on_gpu and recipe.device.cuda_graph and is_local,
            average=self._group.all_reduce_mean,
        )
        if run_dir.checkpoint is not None and _LOSS_SUMS in run_dir.checkpoint.tensors:
            self._step.load_sums(run_dir.checkpoint.tensors[_LOSS_SUMS])
        self._augmented_epoch = -1
        self._throughput = Throughput(recipe.batch_size)
        self._last_step = self._sampler.steps(recipe.max_epochs)
        if recipe.max_steps:
            self._last_step = min(self._last_step, recipe.max_steps)
        self._call_start = time.monotonic()
        self._run_start = self._call_start - self._state.seconds

    def run(self) -> CaptionerReport:
        """Train until the recipe ends, patience runs out, or a stop is requested."""
        recipe, step = self._recipe, self._state.step
        validate_every = self._sampler.steps(recipe.validate_every)
        saved = logged = time.monotonic()
        finished, reason = True, "the recipe was complete already"
        with Interrupts() as interrupts:
            while step < self._last_step and not self._is_out_of_patience():
                self._update_augmentation(step)
                self._start_step(step)
                self._train_step(step)
                step += 1
                validates = step % validate_every == 0 or step == self._last_step
                # Ranks exchange clocks and signals only now and then, as they wait for each other to do so.
                if not (validates or self._fabric.world_size == 1 or step % _STEPS_BETWEEN_SYNCS == 0):
                    continue
                now = time.monotonic()
                if validates or self._group.any_rank(now - logged > _LOG_EVERY_SECONDS):
                    self._log(step)
                    logged = time.monotonic()
                if validates:
                    self._validate(step)
                    reason = "the recipe is complete"
                stops = self._group.any_rank(self._should_stop(interrupts, now))
                if validates or stops or self._group.any_rank(now - saved > recipe.checkpoint_every_seconds):
                    self._save_checkpoint(step)
                    saved = logged = time.monotonic()  # else the next log line would cover a single step
                if stops and step < self._last_step:
                    finished, reason = False, f"stopped at step {step}; continue with --resume"
                    break
        if finished and self._is_out_of_patience():
            reason = f"{recipe.patience} validations without a better CIDEr"
        return CaptionerReport(
            out=recipe.out,
            step=step,
            epochs=self._sampler.epochs(step),
            seconds=time.monotonic() - self._run_start,
            best_score=self._state.best_score,
            finished=finished,
            reason=reason,
        )

    def _is_out_of_patience(self) -> bool:
        return 0 < self._recipe.patience <= self._state.validations_since_best

    def _should_stop(self, interrupts: Interrupts, now: float) -> bool:
        out_of_time = 0 < self._recipe.max_seconds <= now - self._call_start
        return bool(interrupts.stop_requested) or out_of_time

    def _update_augmentation(self, step: int) -> None:
        """Augment the features anew at the start of each epoch and of a resumed run."""
        epoch = int(self._sampler.epochs(step))
        if self._parts.augmented_features is not None and epoch != self._augmented_epoch:
            self._parts.augmented_features.update(epoch)
            self._augmented_epoch = epoch

    def _start_step(self, step: int) -> None:
        is_new_epoch = step == 0 or int(self._sampler.epochs(step)) > int(self._sampler.epochs(step - 1))
        self._objective.start_step(self._model, is_new_epoch=is_new_epoch, max_length=self._recipe.examples.max_length)

    def _train_step(self, step: int) -> None:
        recipe, fabric = self._recipe, self._fabric
        share = recipe.batch_size // fabric.world_size
        local = slice(fabric.global_rank * share, (fabric.global_rank + 1) * share)
        rows = self._sampler.rows(step)[local]
        storage_device = self._parts.loader.storage_device
        inputs = [rows.to(storage_device, non_blocking=True)]
        if recipe.objective.is_self_critical:
            shape = (recipe.batch_size, recipe.objective.num_samples, recipe.examples.max_length, 2)
            draws = (recipe.batch_size, num_draws(self._parts.loader.max_slots))
            inputs += [
                step_noise(step, shape, recipe.seed)[local].to(fabric.device, non_blocking=True),
                control_noise(step, draws, recipe.seed)[local].to(storage_device, non_blocking=True),
            ]
        if self._model.has_dropout:  # so that a resumed run draws the same numbers
            torch.manual_seed(dropout_seed(step, fabric.global_rank, recipe.seed))
        try:
            self._step(inputs, [self._learning_rate(step)])
        except InputError as error:  # sampling fails if the weights are not finite
            raise InputError(f"{self._describe_bad_step(step)} ({error})") from error

    def _learning_rate(self, step: int) -> float:
        return learning_rate(self._recipe.optimizer, step, self._sampler.epochs(step), self._last_step)

    def _log(self, step: int) -> None:
        means = self._step.means()
        self._check_finite()
        self._throughput.update(step)
        learning_rate, epoch = self._learning_rate(step - 1), self._sampler.epochs(step)
        captions_per_second = self._throughput.examples_per_second
        values = {"learning_rate": learning_rate, "epoch": epoch, "captions_per_second": captions_per_second}
        self._metrics.log("train", step, {**means, **values})
        rewards = [value for name, value in means.items() if name in REWARDS]
        self._on_progress(
            TrainingProgress(
                step=step,
                epoch=epoch,
                throughput=captions_per_second,
                losses={name: value for name, value in means.items() if name in ("words", "shifts", "policy")},
                reward=sum(rewards) if rewards else None,
                learning_rate=learning_rate,
                seconds_left=self._throughput.seconds_for(self._last_step - step),
            )
        )

    def _check_finite(self) -> None:
        """Raise on all ranks if a step of any rank was not finite, as they would wait for that one."""
        bad_step = self._step.first_bad_step()
        if self._group.any_rank(bad_step is not None):
            first = self._group.all_reduce_min(float("inf") if bad_step is None else bad_step)
            raise InputError(self._describe_bad_step(self._initial_state.step + int(first)))

    def _describe_bad_step(self, step: int) -> str:
        images = self._parts.examples.image[self._sampler.rows(step).numpy()]
        image_ids = self._parts.dataset.table.image_ids
        names = list(dict.fromkeys(image_ids[image] for image in images.tolist()))
        return (
            f"the loss of step {step + 1} (epoch {self._sampler.epochs(step):.2f}) or its gradient is not finite; "
            f"the images of its batch are {', '.join(names[:5])} and {max(len(names) - 5, 0)} more: look for "
            "non-finite features, or lower optimizer.learning_rate; "
            f"the last checkpoint is of step {self._state.step}"
        )

    def _validate(self, step: int) -> None:
        """Score the validation split and write a bundle."""
        scores: dict[str, float] = {}
        if self._parts.validation is not None:
            self._model.eval()
            scores = self._fabric.broadcast(self._parts.validation(self._model))
            self._model.train()
            self._metrics.log("validation", step, scores)
            logger.info("step %s, validation: %s", step, ", ".join(f"{k} {v:.3f}" for k, v in scores.items()))
        score, best_score = scores.get(SCORE), self._state.best_score
        is_best = score is None or best_score is None or score > best_score
        name = self._run_dir.write_bundle(step, lambda path: self._write_bundle(path, step, scores))
        self._state = replace(
            self._state,
            best_score=score if is_best else best_score,
            best_bundle=name if is_best else self._state.best_bundle,
            last_bundle=name,
            validations_since_best=0 if is_best else self._state.validations_since_best + 1,
        )
        self._throughput.reset()

    def _write_bundle(self, path: Path, step: int, scores: dict[str, float]) -> None:
        recipe, bundle = self._recipe, self._parts.bundle
        provenance: dict[str, TomlValue] = {
            "data": Path(recipe.data).name,
            "stage": recipe.objective.stage,
            "step": step,
            **{f"val_{key}": value for key, value in scores.items()},
        }
        save_bundle(
            path,
            self._model,
            bundle.vocabulary,
            provenance=provenance,
            encoder=bundle.encoder,
            nouns=bundle.nouns,
            sorter=bundle.sorter,
            vision=bundle.vision,
        )

    def _save_checkpoint(self, step: int) -> None:
        """Save a checkpoint, unless a step was not finite."""
        self._check_finite()
        self._state = replace(
            self._state,
            step=step,
            epoch=int(self._sampler.epochs(step)),
            seconds=time.monotonic() - self._run_start,
            metrics_bytes=self._metrics.flush(),
        )
        tensors = train_tensors(self._model, self._optimizer, self._objective)
        self._run_dir.save_checkpoint({**tensors, **self._loss_sums()}, self._state)
        self._fabric.barrier()
        self._throughput.reset()

    def _loss_sums(self) -> dict[str, Tensor]:
        """Losses since the last log line, so that the next one covers its whole interval in a resumed run too."""
        sums = self._step.sums()
        return {} if sums is None else {_LOSS_SUMS: sums}

    def _check_same_checkpoint(self) -> None:
        """Raise if ranks found different checkpoints, as each would wait for steps of its own."""
        step = self._state.step
        if self._group.any_rank(step != self._group.all_reduce_min(step)):
            raise InputError(
                f"rank {self._fabric.global_rank} found a checkpoint of step {step} in {self._recipe.out}, another "
                "rank an earlier one or none: expected a directory that all machines share"
            )


def learning_rate(config: OptimizerConfig, step: int, epochs: float, num_steps: int) -> float:
    """Learning rate of a step, counted from 0, after this many epochs, in a run of ``num_steps``.

    >>> config = OptimizerConfig(learning_rate=1.0, schedule="cosine", warmup_steps=2)
    >>> [round(learning_rate(config, step, 0.0, 6), 2) for step in range(6)]
    [0.5, 1.0, 1.0, 0.85, 0.5, 0.15]
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "cosine":
        progress = (step - config.warmup_steps) / max(1, num_steps - config.warmup_steps)
        return config.learning_rate * (1 + math.cos(math.pi * progress)) / 2
    if not config.decay_every:
        return config.learning_rate
    return config.learning_rate * config.decay ** int(epochs / config.decay_every)


def train_tensors(model: CaptionModel, optimizer: torch.optim.Optimizer, objective: Objective) -> dict[str, Tensor]:
    """All tensors of a checkpoint: weights, optimizer state and the objective's state."""
    tensors = {f"{_MODEL}.{name}": weight for name, weight in model.state_dict().items()}
    for name, weight in model.named_parameters():
        for key, value in optimizer.state.get(weight, {}).items():
            tensors[f"{key}.{name}"] = value
    return tensors | objective.tensors()


def load_train_tensors(
    checkpoint: Checkpoint,
    model: CaptionModel,
    optimizer: torch.optim.Optimizer,
    objective: Objective,
) -> None:
    """Restore what ``train_tensors`` returned, on the model's device."""
    model.load_state_dict(checkpoint.with_prefix(_MODEL))
    keys = {name.split(".", 1)[0] for name in checkpoint.tensors if "." in name} - {_MODEL}
    optimizer_state = {key: checkpoint.with_prefix(key) for key in keys}
    device = model.vocab_projection.weight.device
    for name, weight in model.named_parameters():
        # On a CPU, Adam keeps its step count in a tensor of its own.
        optimizer.state[weight] = {
            key: values[name].clone() if key == "step" and device.type == "cpu" else values[name].to(device)
            for key, values in optimizer_state.items()
            if name in values
        }
    objective.load_tensors(checkpoint.tensors, device)
