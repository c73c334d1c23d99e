"""Trainer of sorters: networks are trained by epochs and resumable, the other kinds are fitted at once.

A checkpoint is saved after each epoch, which takes seconds. Random numbers depend on the seed and the epoch only, so a
resumed run ends as an uninterrupted one.
"""

import json
import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from sct.captioner.bundle import add_sorter
from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.sorting.baselines import ClassOrder, DetectionProbability, SvmRank
from sct.sorting.interface import Sorter
from sct.sorting.metrics import OrderScores
from sct.sorting.serialization import save_sorter
from sct.sorting.sorter import ControlSorter
from sct.storage.atomic import atomic_write
from sct.storage.toml import TomlValue
from sct.training.checkpoint import Checkpoint, TrainState
from sct.training.distributed import Interrupts
from sct.training.metric_logger import MetricLogger, OnProgress, ProgressLogger, Throughput, TrainingProgress
from sct.training.run_dir import RunDir
from sct.training.sorter.config import SorterRecipe
from sct.training.sorter.data import SorterData, SorterDataLoader, load_sorter_data, score_sorter
from sct.training.sorter.networks import TRAINABLE_SORTERS

logger = logging.getLogger(__name__)

SCORES = "scores.json"
_FIT_BATCH_SIZE = 1000
_LOG_EVERY = 100
"""Steps between two progress reports."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SorterReport:
    """Result of a run."""

    out: str
    kind: str
    epochs: int
    seconds: float
    """Training time, over all calls."""
    held_out: OrderScores | None
    """Scores of the best epoch on held-out images of the training split."""
    val: OrderScores | None = None
    """Scores on the val split; None without one, or before the run is finished."""
    val_by_sets: dict[int, OrderScores]
    """Val scores by number of region sets."""
    val_human: OrderScores | None = None
    """Val scores on human-grounded captions; None if there are none."""
    finished: bool
    """Whether the recipe is complete; otherwise --resume continues it."""
    reason: str
    """Why the run ended, for people."""

    def summary(self) -> str:
        """Format for a terminal."""
        lines = [f"{self.out}: {self.kind}, {self.epochs} epochs, {self.seconds:.0f} seconds"]
        rows = {"held out": self.held_out, "val": self.val, "val, human": self.val_human}
        rows |= {f"val, {num_sets} sets": scores for num_sets, scores in self.val_by_sets.items()}
        lines += [
            f"  {name:<12} accuracy {100 * scores.accuracy:5.1f}  tau {scores.tau:6.3f}  ({scores.controls:,} controls)"
            for name, scores in rows.items()
            if scores is not None
        ]
        return "\n".join([*lines, f"  {self.reason}"])


def train_sorter(recipe: SorterRecipe, *, resume: bool = False, on_progress: OnProgress | None = None) -> SorterReport:
    """Train or fit a sorter, score it, and write it to ``best``; progress is logged unless ``on_progress`` is given."""
    with RunDir.open(Path(recipe.out), recipe, resume=resume) as run_dir, _single_thread():
        data = load_sorter_data(recipe)
        if recipe.kind not in TRAINABLE_SORTERS:
            return _fit_sorter(recipe, data, run_dir)
        with run_dir.metric_logger() as metrics:
            return _SorterTrainer(recipe, data, run_dir, metrics, on_progress or ProgressLogger()).run()


@contextmanager
def _single_thread() -> Iterator[None]:
    """Compute in one thread: steps are so small that more threads are slower, much so on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fit_sorter(recipe: SorterRecipe, data: SorterData, run_dir: RunDir) -> SorterReport:
    """Fit a sorter that needs no epochs."""
    start = time.monotonic()
    generator = np.random.default_rng(recipe.seed)
    shuffled = generator.permutation(len(data.train))
    batches = data.train.batches(_FIT_BATCH_SIZE, generator, shuffled)
    vectors = WordVectors(data.vectors.name, {}, np.zeros((0, 1), np.float32))
    sorter: Sorter = DetectionProbability()
    if recipe.kind == "class_order":
        sorter = ClassOrder.fit(batches)
    elif recipe.kind == "svm_rank":
        sorter = SvmRank.fit(batches, visual=data.feature_size is not None, seed=recipe.seed)
        vectors = data.vectors
    held_out = score_sorter(sorter, data.held_out)
    state = TrainState(seconds=time.monotonic() - start)
    report = _make_report(recipe, state, held_out, finished=True, reason="fitted at once")
    return _write_results(recipe, data, ControlSorter(sorter, vectors), report, run_dir, state, {})


class _SorterTrainer:
    """State of the training of a network."""

    def __init__(
        self, recipe: SorterRecipe, data: SorterData, run_dir: RunDir, metrics: MetricLogger, on_progress: OnProgress
    ) -> None:
        self._recipe, self._data, self._run_dir = recipe, data, run_dir
        self._metrics, self._on_progress = metrics, on_progress
        self._device = torch.device(recipe.device)
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed)
            self._trainable = TRAINABLE_SORTERS[recipe.kind](recipe, data)
        self._network = self._trainable.network.to(self._device)
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=recipe.learning_rate)
        self._state, self._best_weights = run_dir.state, _clone_weights(self._network)
        if run_dir.checkpoint is not None:
            self._load_checkpoint(run_dir.checkpoint)
        self._steps_per_epoch = math.ceil(len(data.train) / recipe.batch_size)
        self._run_start = time.monotonic() - self._state.seconds

    def run(self) -> SorterReport:
        """Train until the recipe ends, patience runs out, or a stop is requested; then score the best epoch."""
        recipe, finished, reason = self._recipe, True, "the recipe is complete"
        with Interrupts() as interrupts:
            while self._state.epoch < recipe.max_epochs and not self._is_out_of_patience():
                loss = self._train_epoch(interrupts)
                if loss is None:
                    finished = False
                    reason = f"stopped in epoch {self._state.epoch + 1}; continue with --resume"
                    break
                self._validate_and_save(loss)
        if finished and self._is_out_of_patience():
            reason = f"{recipe.patience} epochs without a better accuracy"
        self._network.load_state_dict(self._best_weights)
        self._network.eval()
        sorter = self._trainable.sorter()
        held_out = score_sorter(sorter, self._data.held_out, self._device) if self._state.epoch else None
        report = _make_report(recipe, self._state, held_out, finished=finished, reason=reason)
        if not finished:
            return report
        control_sorter = ControlSorter(sorter, self._data.vectors)
        return _write_results(
            recipe, self._data, control_sorter, report, self._run_dir, self._state, self._checkpoint_tensors()
        )

    def _is_out_of_patience(self) -> bool:
        return 0 < self._recipe.patience <= self._state.validations_since_best

    def _train_epoch(self, interrupts: Interrupts) -> float | None:
        """Train one epoch and return its mean loss; None if a signal interrupted it."""
        recipe, data, epoch = self._recipe, self._data, self._state.epoch
        generator = np.random.default_rng([recipe.seed, epoch])
        for group in self._optimizer.param_groups:
            group["lr"] = self._learning_rate()
        shuffled = generator.permutation(len(data.train))
        total, throughput = torch.zeros((), device=self._device), Throughput(recipe.batch_size)
        self._network.train()
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed * 1_000_003 + epoch)  # for dropout
            for step, batch in enumerate(data.train.batches(recipe.batch_size, generator, shuffled), start=1):
                if interrupts.stop_requested:
                    return None
                loss = self._trainable.loss(batch.to(self._device))
                self._optimizer.zero_grad()
                loss.backward()
                self._optimizer.step()
                total += loss.detach()
                if step % _LOG_EVERY == 0:
                    throughput.update(step)
                    self._report_progress(step, float(total) / step, throughput)
        mean = float(total) / self._steps_per_epoch
        if not math.isfinite(mean):
            raise InputError(f"the loss of epoch {epoch + 1} is not finite: lower learning_rate and start again")
        return mean

    def _learning_rate(self) -> float:
        return self._recipe.learning_rate * self._recipe.decay**self._state.epoch

    def _report_progress(self, step: int, loss: float, throughput: Throughput) -> None:
        total_step = self._state.epoch * self._steps_per_epoch + step
        self._on_progress(
            TrainingProgress(
                step=total_step,
                epoch=total_step / self._steps_per_epoch,
                losses={"loss": loss},
                learning_rate=self._learning_rate(),
                seconds_left=throughput.seconds_for(self._steps_per_epoch * self._recipe.max_epochs - total_step),
            )
        )

    def _validate_and_save(self, loss: float) -> None:
        """Score the held-out controls, log, and save a checkpoint."""
        self._network.eval()
        scores = score_sorter(self._trainable.sorter(), self._data.held_out, self._device)
        state, epoch = self._state, self._state.epoch + 1
        step = epoch * self._steps_per_epoch
        values = {"accuracy": 100 * scores.accuracy, "tau": scores.tau}
        self._metrics.log("train", step, {"loss": loss, "learning_rate": self._learning_rate(), "epoch": epoch})
        self._metrics.log("validation", step, values)
        logger.info("epoch %s, held out: accuracy %.2f, tau %.4f", epoch, *values.values())
        is_best = state.best_score is None or scores.accuracy > state.best_score
        if is_best:
            self._best_weights = _clone_weights(self._network)
        self._state = replace(
            state,
            step=step,
            epoch=epoch,
            best_score=scores.accuracy if is_best else state.best_score,
            validations_since_best=0 if is_best else state.validations_since_best + 1,
            seconds=time.monotonic() - self._run_start,
            metrics_bytes=self._metrics.flush(),
        )
        self._run_dir.save_checkpoint(self._checkpoint_tensors(), self._state)

    def _checkpoint_tensors(self) -> dict[str, Tensor]:
        tensors = {f"model.{name}": weight for name, weight in self._network.state_dict().items()}
        tensors |= {f"best.{name}": weight for name, weight in self._best_weights.items()}
        for name, weight in self._network.named_parameters():
            tensors |= {f"{key}.{name}": value for key, value in self._optimizer.state[weight].items()}
        return tensors

    def _load_checkpoint(self, checkpoint: Checkpoint) -> None:
        if not checkpoint.tensors:
            return
        self._network.load_state_dict(checkpoint.with_prefix("model"))
        self._best_weights = checkpoint.with_prefix("best")
        for name, weight in self._network.named_parameters():
            moments = {key: checkpoint.with_prefix(key)[name].to(self._device) for key in ("exp_avg", "exp_avg_sq")}
            # Adam keeps its step count on the host.
            self._optimizer.state[weight] = {"step": checkpoint.with_prefix("step")[name].clone(), **moments}


def _clone_weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in network.state_dict().items()}


def _make_report(
    recipe: SorterRecipe, state: TrainState, held_out: OrderScores | None, *, finished: bool, reason: str
) -> SorterReport:
    return SorterReport(
        out=recipe.out,
        kind=recipe.kind,
        epochs=state.epoch,
        seconds=state.seconds,
        held_out=held_out,
        val_by_sets={},
        finished=finished,
        reason=reason,
    )


def _write_results(
    recipe: SorterRecipe,
    data: SorterData,
    sorter: ControlSorter,
    report: SorterReport,
    run_dir: RunDir,
    state: TrainState,
    tensors: dict[str, Tensor],
) -> SorterReport:
    """Score the val split once, and write the sorter, or a copy of the bundle ``from`` with it, and the scores."""
    if data.val is not None:
        report = replace(report, **_score_val(sorter.sorter, data.val, recipe.device))
    provenance: dict[str, TomlValue] = {"data": Path(recipe.data).name, "seed": recipe.seed}
    if report.val is not None:
        provenance |= {"val_accuracy": 100 * report.val.accuracy, "val_tau": report.val.tau}

    def write(path: Path) -> None:
        if recipe.start:
            add_sorter(Path(recipe.start), sorter, path, provenance=provenance)
            return
        part = path.with_name(f".{path.name}.part")
        save_sorter(part, sorter, provenance=provenance)
        part.rename(path)

    name = run_dir.write_bundle(state.step, write)
    run_dir.save_checkpoint(tensors, replace(state, best_bundle=name, last_bundle=name))
    with atomic_write(run_dir.path / SCORES) as file:
        file.write(json.dumps(asdict(report), indent=1).encode("utf-8"))
    return report


def _score_val(sorter: Sorter, data: SorterDataLoader, device: str) -> dict[str, Any]:
    def score(selected: Bool[np.ndarray, " controls"]) -> OrderScores:
        return score_sorter(sorter, data, device, np.flatnonzero(selected))

    human_grounded = data.controls.human_grounded
    return {
        "val": score_sorter(sorter, data, device),
        "val_by_sets": {num_sets: score(data.num_sets == num_sets) for num_sets in np.unique(data.num_sets).tolist()},
        "val_human": score(human_grounded) if human_grounded.any() else None,
    }
