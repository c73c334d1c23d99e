"""Training of a sorter, from its recipe to its folder; killed and resumed at will.

A run is saved after each epoch, which takes seconds, and goes on from there: whatever is random is drawn anew for each
epoch from the seed and its number, so that a run that was stopped ends as one that was not.
"""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sct.errors import InputError
from sct.language.word_vectors import WordVectors
from sct.sorting import (
    ClassOrder,
    ControlSorter,
    OrderScores,
    PointerConfig,
    PointerNetwork,
    PointerSorter,
    ProbabilityOrder,
    SinkhornSorter,
    Sorter,
    SorterConfig,
    SortingBatch,
    SortingNetwork,
    SvmRank,
    next_set_loss,
    place_loss,
    reconstruction_loss,
)
from sct.storage.atomic import atomic_write, lock
from sct.training.checkpoint import Checkpoint, TrainState, load_checkpoint, save_checkpoint
from sct.training.config import flat_settings, settings_text
from sct.training.distributed import Interrupts
from sct.training.metric_logger import MetricLogger, Progress, ProgressLog, ShowProgress, Throughput
from sct.training.sorter.config import MAY_CHANGE_ON_RESUME, SorterRecipe, load_sorter_recipe, sorter_fingerprint
from sct.training.sorter.data import BEST, SorterData, SorterReport, finish, load_sorter_data, report_of, score_sorter

logger = logging.getLogger(__name__)

RECIPE, CHECKPOINT, LOCK = "recipe.toml", "checkpoint.safetensors", ".lock"
_FITTED_AT_ONCE = 1000
_TOLD_EVERY = 100
"""Steps between two looks at how it gets on."""


def train_sorter(recipe: SorterRecipe, *, resume: bool = False, show: ShowProgress | None = None) -> SorterReport:
    """Train a sorter, or fit one that needs no epochs, and score it; ``show`` is told how it gets on."""
    out = Path(recipe.out)
    if resume and not out.is_dir():
        raise InputError(f"{out} does not exist, so there is no run to go on with: leave --resume out to begin one")
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file: name a folder for the run with out=DIR")
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK).open("ab") as held:
        lock(held, out)
        checkpoint = _begun(out, recipe) if resume else None
        if not resume:
            _refuse_begun(out)
        with atomic_write(out / RECIPE) as file:
            file.write(settings_text(recipe).encode("utf-8"))
        lessons = load_sorter_data(recipe)
        with _one_thread():
            if recipe.kind in ("sinkhorn", "pointer"):
                return _Run(recipe, lessons, checkpoint, show or ProgressLog()).go()
            return _fit(recipe, lessons)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in one thread: steps are so small that several take longer, many times so on a machine that is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _refuse_begun(out: Path) -> None:
    found = [name for name in (CHECKPOINT, BEST) if (out / name).exists()]
    if found:
        raise InputError(
            f"{out} holds a run already ({', '.join(found)}): go on with --resume, or name another by out=DIR"
        )


def _begun(out: Path, recipe: SorterRecipe) -> Checkpoint | None:
    """The checkpoint of a run that was begun with the same recipe; none where it has none yet."""
    fingerprint = sorter_fingerprint(recipe)
    if (out / RECIPE).exists():
        begun = load_sorter_recipe(out / RECIPE)
        if sorter_fingerprint(begun) != fingerprint:
            before, now = flat_settings(begun), flat_settings(recipe)
            changed = next(key for key in now if now[key] != before[key] and key not in MAY_CHANGE_ON_RESUME)
            raise InputError(
                f"{out} was begun with {changed}={before[changed]}, and now came {changed}={now[changed]}: give the "
                "same, or begin another run with out=DIR"
            )
    return load_checkpoint(out / CHECKPOINT, fingerprint) if (out / CHECKPOINT).exists() else None


def _fit(recipe: SorterRecipe, lessons: SorterData) -> SorterReport:
    """A sorter that is made in one go."""
    begun = time.monotonic()
    random = np.random.default_rng(recipe.seed)
    order = random.permutation(len(lessons.train))
    batches = lessons.train.batches(_FITTED_AT_ONCE, random, order)
    vectors = WordVectors(lessons.vectors.name, {}, np.zeros((0, 1), np.float32))
    sorter: Sorter = ProbabilityOrder()
    if recipe.kind == "class_order":
        sorter = ClassOrder.fit(batches)
    elif recipe.kind == "svm_rank":
        sorter = SvmRank.fit(batches, visual=lessons.feature_size is not None, seed=recipe.seed)
        vectors = lessons.vectors
    held_out = score_sorter(sorter, lessons.held_out)
    facts = TrainState(seconds=time.monotonic() - begun)
    return finish(recipe, lessons, ControlSorter(sorter, vectors), held_out, facts, "it was fitted in one go")


class _Run:
    """The state of a network's training under way."""

    def __init__(
        self, recipe: SorterRecipe, lessons: SorterData, checkpoint: Checkpoint | None, show: ShowProgress
    ) -> None:
        self._recipe, self._lessons, self._show = recipe, lessons, show
        self._out, self._device = Path(recipe.out), torch.device(recipe.device)
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed)
            self._network = _network(recipe, lessons).to(self._device)
        self._optimiser = torch.optim.Adam(self._network.parameters(), lr=recipe.learning_rate)
        self._facts = TrainState()
        self._best = _copied(self._network)
        if checkpoint is not None:
            self._restore(checkpoint)
        self._begun = time.monotonic() - self._facts.seconds

    def go(self) -> SorterReport:
        """Train until the recipe or somebody says stop."""
        recipe, reason, finished = self._recipe, "it has reached its end", True
        with (
            MetricLogger(self._out, length=self._facts.journal_bytes, step=self._facts.step) as journal,
            Interrupts() as interrupts,
        ):
            while self._facts.epoch < recipe.max_epochs and not self._is_out_of_patience():
                if not self._epoch(journal, interrupts):
                    finished, reason = False, f"it was asked to stop in epoch {self._facts.epoch + 1}; use --resume"
                    break
        if finished and self._is_out_of_patience():
            reason = f"{recipe.patience} epochs brought no better accuracy"
        self._network.load_state_dict(self._best)
        sorter = ControlSorter(_sorter(self._network.eval()), self._lessons.vectors)
        held_out = None
        if self._facts.epoch:
            held_out = score_sorter(sorter.sorter, self._lessons.held_out, self._device)
        if not finished:
            return report_of(recipe, self._facts, held_out, finished=False, reason=reason)
        return finish(recipe, self._lessons, sorter, held_out, self._facts, reason)

    def _is_out_of_patience(self) -> bool:
        return 0 < self._recipe.patience <= self._facts.validations_since_best

    def _epoch(self, journal: MetricLogger, interrupts: Interrupts) -> bool:
        """Go through the controls once, score, and save; False where a signal came in between."""
        recipe, lessons, epoch = self._recipe, self._lessons, self._facts.epoch
        random = np.random.default_rng([recipe.seed, epoch])
        rate = recipe.learning_rate * recipe.decay**epoch
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        numbers = random.permutation(len(lessons.train))
        steps = math.ceil(len(numbers) / recipe.batch_size)
        total, pace = torch.zeros((), device=self._device), Throughput(recipe.batch_size)
        self._network.train()
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed * 1_000_003 + epoch)  # for what the pointer network leaves out at random
            for number, batch in enumerate(lessons.train.batches(recipe.batch_size, random, numbers), start=1):
                if interrupts.stop_requested:
                    return False
                loss = self._loss(batch.to(self._device))
                self._optimiser.zero_grad()
                loss.backward()
                self._optimiser.step()
                total += loss.detach()
                if number % _TOLD_EVERY == 0:
                    pace.mark(number)
                    self._tell(epoch * steps + number, epoch + number / steps, float(total) / number, rate, pace, steps)
        mean = float(total) / steps
        if not math.isfinite(mean):
            raise InputError(f"the loss of epoch {epoch + 1} is not finite: lower learning_rate, and begin again")
        self._network.eval()
        scores = score_sorter(_sorter(self._network), lessons.held_out, self._device)
        values = {"accuracy": 100 * scores.accuracy, "tau": scores.tau}
        journal.record("train", (epoch + 1) * steps, {"loss": mean, "learning_rate": rate, "epoch": epoch + 1})
        journal.record("validation", (epoch + 1) * steps, values)
        logger.info("epoch %s, held out: accuracy %.2f, tau %.4f", epoch + 1, *values.values())
        self._save(scores, (epoch + 1) * steps, journal)
        return True

    def _loss(self, batch: SortingBatch) -> Tensor:
        if isinstance(self._network, PointerNetwork):
            return next_set_loss(self._network, batch)
        of_network = place_loss if self._recipe.loss == "place" else reconstruction_loss
        return of_network(self._network, batch)

    def _tell(self, step: int, epoch: float, loss: float, rate: float, pace: Throughput, steps: int) -> None:
        left = pace.seconds_for(steps * self._recipe.max_epochs - step)
        self._show(Progress(step=step, epoch=epoch, losses={"loss": loss}, learning_rate=rate, seconds_left=left))

    def _save(self, scores: OrderScores, step: int, journal: MetricLogger) -> None:
        facts = self._facts
        is_best = facts.best_score is None or scores.accuracy > facts.best_score
        if is_best:
            self._best = _copied(self._network)
        self._facts = replace(
            facts,
            step=step,
            epoch=facts.epoch + 1,
            best_score=scores.accuracy if is_best else facts.best_score,
            validations_since_best=0 if is_best else facts.validations_since_best + 1,
            seconds=time.monotonic() - self._begun,
            journal_bytes=journal.settle(),
        )
        tensors = {f"network.{name}": weight for name, weight in self._network.state_dict().items()}
        tensors |= {f"best.{name}": weight for name, weight in self._best.items()}
        for name, weight in self._network.named_parameters():
            tensors |= {f"{key}.{name}": value for key, value in self._optimiser.state[weight].items()}
        save_checkpoint(self._out / CHECKPOINT, tensors, self._facts, sorter_fingerprint(self._recipe))

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._facts = checkpoint.facts
        self._network.load_state_dict(checkpoint.under("network"))
        self._best = checkpoint.under("best")
        for name, weight in self._network.named_parameters():
            moments = {key: checkpoint.under(key)[name] for key in ("exp_avg", "exp_avg_sq")}
            moved = {key: value.to(self._device) for key, value in moments.items()}
            # Adam counts its steps on the host.
            self._optimiser.state[weight] = {"step": checkpoint.under("step")[name].clone(), **moved}


def _network(recipe: SorterRecipe, lessons: SorterData) -> SortingNetwork | PointerNetwork:
    sizes: dict[str, Any] = {"word_size": lessons.vectors.matrix.shape[1], "visual_size": lessons.feature_size}
    if recipe.kind == "pointer":
        return PointerNetwork(PointerConfig(**sizes))
    return SortingNetwork(SorterConfig(**sizes, max_sets=recipe.max_sets))


def _sorter(network: SortingNetwork | PointerNetwork) -> Sorter:
    return PointerSorter(network) if isinstance(network, PointerNetwork) else SinkhornSorter(network)


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in network.state_dict().items()}
