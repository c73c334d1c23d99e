"""All tensors that change while training, to and from a checkpoint.

The loop: one stage of training from its recipe to its bundles, on one device or many, killed and resumed at will.
"""

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import Tensor

from sct.captioner.bundle import save_bundle
from sct.errors import InputError
from sct.models.interface import CaptionModel
from sct.storage.toml import TomlValue
from sct.training.captioner.config import DeviceSettings, Recipe
from sct.training.captioner.dataloader import Order, step_noise
from sct.training.captioner.objectives import RewardObjective, WordsObjective
from sct.training.captioner.setup import build_training, human_oversampling, make_objective
from sct.training.checkpoint import Checkpoint, TrainState
from sct.training.cuda_graph_step import LossModule, TrainingStep, make_optimiser
from sct.training.distributed import Arithmetic, Interrupts, Processes, arithmetic_of, launch, products_in
from sct.training.metric_logger import MetricLogger, Progress, ProgressLog, ShowProgress, Throughput
from sct.training.run_dir import RunDir

_NETWORK, _BASELINE = "network", "baseline"


def training_tensors(
    network: CaptionModel, optimiser: torch.optim.Optimizer, objective: WordsObjective | RewardObjective
) -> dict[str, Tensor]:
    """Weights, the optimiser's moments, and the baseline of the epoch where there is one, by name."""
    tensors = {f"{_NETWORK}.{name}": weight for name, weight in network.state_dict().items()}
    for name, weight in network.named_parameters():
        for kind, value in optimiser.state.get(weight, {}).items():
            tensors[f"{kind}.{name}"] = value
    if isinstance(objective, RewardObjective) and objective.given_baseline is not None:
        tensors[_BASELINE] = objective.given_baseline
    return tensors


def restore(
    checkpoint: Checkpoint,
    network: CaptionModel,
    optimiser: torch.optim.Optimizer,
    objective: WordsObjective | RewardObjective,
) -> None:
    """Put back what ``training_tensors`` gave, where the network is now."""
    network.load_state_dict(checkpoint.under(_NETWORK))
    kinds = {name.split(".", 1)[0] for name in checkpoint.tensors} - {_NETWORK, _BASELINE}
    moments = {kind: checkpoint.under(kind) for kind in kinds}
    device = network.output.weight.device
    for name, weight in network.named_parameters():
        # Adam counts steps on the host unless a graph is to record it.
        optimiser.state[weight] = {
            kind: values[name].clone() if kind == "step" and device.type == "cpu" else values[name].to(device)
            for kind, values in moments.items()
            if name in values
        }
    if isinstance(objective, RewardObjective) and _BASELINE in checkpoint.tensors:
        objective.given_baseline = checkpoint.tensors[_BASELINE].to(device)


logger = logging.getLogger(__name__)

_REPORT_EVERY_SECONDS = 2.0
_STEPS_BETWEEN_LOOKS = 10
SCORE = "C"
"""What the best bundle is chosen by: validation CIDEr."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingReport:
    """How a run ended."""

    out: str
    step: int
    epochs: float
    seconds: float
    """Spent on training, over all calls."""
    best_score: float | None
    """Highest validation CIDEr."""
    finished: bool
    """Whether the recipe is done; if not, --resume goes on."""
    reason: str
    """Why it ended, for people."""


def train(recipe: Recipe, *, resume: bool = False, show: ShowProgress | None = None) -> TrainingReport:
    """Train one stage; ``show`` is told how it gets on (logged if not given)."""
    arithmetic = arithmetic_of(recipe)
    fabric = _fabric(recipe.device, arithmetic)
    launch(fabric)
    folder_of = RunDir.resume if resume else RunDir.create
    with (
        products_in(arithmetic),
        folder_of(Path(recipe.out), recipe, writes=fabric.is_global_zero) as folder,
        folder.journal() as journal,
    ):
        return _Run(recipe, fabric, folder, journal, show or ProgressLog()).go()


def _fabric(settings: DeviceSettings, arithmetic: Arithmetic) -> Fabric:
    return Fabric(
        accelerator=settings.accelerator,
        devices=settings.devices,
        num_nodes=settings.nodes,
        strategy=settings.strategy,
        precision="bf16-mixed" if arithmetic == "bf16-mixed" else "32-true",
    )


class _Run:
    """The state of a run under way."""

    def __init__(
        self, recipe: Recipe, fabric: Fabric, folder: RunDir, journal: MetricLogger, show: ShowProgress
    ) -> None:
        self._recipe, self._fabric, self._folder, self._journal, self._show = recipe, fabric, folder, journal, show
        device = fabric.device
        on_gpu = device.type == "cuda"
        dtype = torch.bfloat16 if on_gpu and arithmetic_of(recipe) == "bf16-mixed" else torch.float32
        self._workshop = build_training(recipe, device, dtype)
        self._network = self._workshop.bundle.captioner.to(device).train()
        self._validation = self._workshop.validation
        self._processes = Processes(fabric)
        self._objective = make_objective(recipe, self._workshop, device, self._processes.masked_mean)
        self._order = Order(
            len(self._workshop.examples),
            recipe.batch_size,
            seed=recipe.seed,
            shuffle=recipe.objective.shuffle,
            repeats=human_oversampling(recipe, self._workshop),
        )
        self._optimiser = make_optimiser(self._network, device)
        self._facts = self._facts_at_start = TrainState() if folder.checkpoint is None else folder.checkpoint.facts
        self._refuse_other_checkpoints()
        if folder.checkpoint is not None:
            restore(folder.checkpoint, self._network, self._optimiser, self._objective)
        learner = LossModule(self._network, self._objective)
        wrapped, optimiser = fabric.setup(learner, self._optimiser)
        self._step = TrainingStep(
            learner,
            wrapped,
            optimiser,
            fabric.backward,
            clip_norm=recipe.optimiser.clip_norm,
            record=on_gpu and recipe.device.graph and fabric.world_size == 1 and self._workshop.feed.home == device,
            average=self._processes.average,
        )
        self._drawn_epoch = -1
        self._pace = Throughput(recipe.batch_size)
        self._begun = time.monotonic() - self._facts.seconds
        self._called = time.monotonic()

    def go(self) -> TrainingReport:
        """Take steps until something says stop."""
        recipe, last_step = self._recipe, self._last_step()
        validate_every = self._order.steps(recipe.validate_every)
        saved = reported = time.monotonic()
        step = self._facts.step
        reason = "it had reached its end before"
        finished = True
        with Interrupts() as interrupts:
            while step < last_step and not self._is_out_of_patience():
                self._draw_views(step)
                self._refresh_baseline(step)
                self._take(step)
                step += 1
                is_validation = step % validate_every == 0 or step == last_step
                if not (is_validation or self._looks_up(step)):
                    continue
                now = time.monotonic()
                if is_validation or self._processes.any(now - reported > _REPORT_EVERY_SECONDS):
                    self._report(step, last_step)
                    reported = time.monotonic()
                if is_validation:
                    self._validate(step)
                    reason = "it has reached its end"
                stop = self._processes.any(self._wish(interrupts, now))
                if is_validation or stop or self._processes.any(now - saved > recipe.checkpoint_every_seconds):
                    self._save(step)
                    saved = reported = time.monotonic()  # or the next report would be of a single step
                if stop and step < last_step:
                    finished, reason = False, f"it was asked to stop at step {step}; go on with --resume"
                    break
        if finished and self._is_out_of_patience():
            reason = f"{recipe.patience} validations brought no better CIDEr"
        return TrainingReport(
            out=recipe.out,
            step=step,
            epochs=self._order.epochs(step),
            seconds=time.monotonic() - self._begun,
            best_score=self._facts.best_score,
            finished=finished,
            reason=reason,
        )

    def _last_step(self) -> int:
        recipe = self._recipe
        last = self._order.steps(recipe.max_epochs)
        return min(last, recipe.max_steps) if recipe.max_steps else last

    def _is_out_of_patience(self) -> bool:
        return 0 < self._recipe.patience <= self._facts.validations_since_best

    def _looks_up(self, step: int) -> bool:
        """Whether clocks and signals are looked at after this step: several processes wait for each other to do so."""
        return self._fabric.world_size == 1 or step % _STEPS_BETWEEN_LOOKS == 0

    def _wish(self, interrupts: Interrupts, now: float) -> bool:
        """Whether this process wants to stop."""
        is_late = 0 < self._recipe.max_seconds <= now - self._called
        return bool(interrupts.stop_requested) or is_late

    def _take(self, step: int) -> None:
        recipe, fabric = self._recipe, self._fabric
        rows, noise = self._order.rows(step), torch.zeros(())
        if recipe.objective.stage != "words":
            shape = (recipe.batch_size, recipe.objective.samples, recipe.examples.max_length, 2)
            noise = step_noise(step, shape, recipe.seed)
        if fabric.world_size > 1:
            share = recipe.batch_size // fabric.world_size
            mine = slice(fabric.global_rank * share, (fabric.global_rank + 1) * share)
            rows, noise = rows[mine], noise[mine] if noise.dim() else noise
        home, device = self._workshop.feed.home, fabric.device
        try:
            self._step(rows.to(home, non_blocking=True), noise.to(device, non_blocking=True), self._learning_rate(step))
        except InputError as error:  # a captioner whose weights are no numbers cannot say a caption to be rewarded
            raise InputError(f"{self._describe(step)} ({error})") from error

    def _learning_rate(self, step: int) -> float:
        settings = self._recipe.optimiser
        if not settings.decay_every:
            return settings.learning_rate
        return settings.learning_rate * settings.decay ** int(self._order.epochs(step) / settings.decay_every)

    def _report(self, step: int, last_step: int) -> None:
        means = self._step.report()
        self._refuse_bad_steps()
        self._pace.mark(step)
        rate = self._learning_rate(step - 1)
        speed = self._pace.captions_per_second
        self._journal.record(
            "train",
            step,
            {**means, "learning_rate": rate, "epoch": self._order.epochs(step), "captions_per_second": speed},
        )
        rewards = [value for name, value in means.items() if name in ("cider", "nouns", "repeats")]
        self._show(
            Progress(
                step=step,
                epoch=self._order.epochs(step),
                captions_per_second=speed,
                losses={name: value for name, value in means.items() if name in ("words", "shifts", "policy")},
                reward=sum(rewards) if rewards else None,
                learning_rate=rate,
                seconds_left=self._pace.seconds_for(last_step - step),
            )
        )

    def _refuse_bad_steps(self) -> None:
        """Stop after a step that went wrong in any process: the others would wait for that one for ever."""
        bad = self._step.first_bad()
        if self._processes.any(bad is not None):
            first = self._processes.least(float("inf") if bad is None else bad)
            raise InputError(self._describe(self._facts_at_start.step + int(first)))

    def _describe(self, bad_step: int) -> str:
        """Name the batch whose loss or gradient was not finite."""
        workshop = self._workshop
        images = workshop.examples.image[self._order.rows(bad_step).numpy()]
        names = list(dict.fromkeys(workshop.dataset.table.image_ids[image] for image in images.tolist()))
        return (
            f"the loss of step {bad_step + 1} (epoch {self._order.epochs(bad_step):.2f}) or its gradient is not "
            "finite; its batch is "
            f"of the images {', '.join(names[:5])} and {max(len(names) - 5, 0)} more: look for numbers that are not "
            "finite in their features, or lower optimiser.learning_rate; "
            f"the last checkpoint is of step {self._facts.step}"
        )

    def _validate(self, step: int) -> None:
        """Score captions of the validation split, and write the bundle."""
        scores: dict[str, float] = {}
        if self._validation is not None:
            self._network.eval()
            scores = self._fabric.broadcast(self._validation(self._network))
            self._network.train()
            self._journal.record("validation", step, scores)
            logger.info("step %s, validation: %s", step, ", ".join(f"{k} {v:.3f}" for k, v in scores.items()))
        recipe, score = self._recipe, scores.get(SCORE)
        best = self._facts.best_score
        is_best = score is None or best is None or score > best
        bundle = self._workshop.bundle
        facts: dict[str, TomlValue] = {"data": Path(recipe.data).name, "stage": recipe.objective.stage, "step": step}
        facts |= {f"val_{key}": value for key, value in scores.items()}
        name = self._folder.write_bundle(
            step,
            lambda path: save_bundle(
                path,
                self._network,
                bundle.vocabulary,
                provenance=facts,
                encoder=bundle.encoder,
                nouns=bundle.nouns,
                sorter=bundle.sorter,
                vision=bundle.vision,
            ),
        )
        self._facts = replace(
            self._facts,
            best_score=score if is_best else best,
            best_bundle=name if is_best else self._facts.best_bundle,
            last_bundle=name,
            validations_since_best=0 if is_best else self._facts.validations_since_best + 1,
        )
        self._pace.pause()

    def _save(self, step: int) -> None:
        """Save a checkpoint; the loss is looked at first, so that none is saved that has gone wrong."""
        self._refuse_bad_steps()
        self._facts = replace(
            self._facts,
            step=step,
            epoch=int(self._order.epochs(step)),
            seconds=time.monotonic() - self._begun,
            journal_bytes=self._journal.settle(),
        )
        tensors = training_tensors(self._network, self._optimiser, self._objective)
        self._folder.save_checkpoint(tensors, self._facts)
        self._fabric.barrier()
        self._pace.pause()

    def _draw_views(self, step: int) -> None:
        """At the start of an epoch, and of a run that goes on, draw the images anew."""
        epoch = int(self._order.epochs(step))
        if self._workshop.views is not None and epoch != self._drawn_epoch:
            self._workshop.views.draw(epoch)
            self._drawn_epoch = epoch

    @torch.no_grad()
    def _refresh_baseline(self, step: int) -> None:
        """Once an epoch let the captioner say all training captions, as the authors' baseline wants it."""
        if self._recipe.objective.baseline != "epoch_greedy" or not isinstance(self._objective, RewardObjective):
            return
        is_new_epoch = int(self._order.epochs(step)) > int(self._order.epochs(step - 1)) if step else True
        if self._objective.given_baseline is not None and not is_new_epoch:
            return
        earned = self._objective.greedy_rewards(self._network, self._recipe.examples.max_length)
        if self._objective.given_baseline is None:
            self._objective.given_baseline = earned
        else:
            self._objective.given_baseline.copy_(earned)  # a recorded step reads it from there

    def _refuse_other_checkpoints(self) -> None:
        """Refuse to go on where the processes found different checkpoints: each would wait for steps of its own."""
        step = self._facts.step
        if self._processes.any(step != self._processes.least(step)):
            raise InputError(
                f"process {self._fabric.global_rank} found a checkpoint of step {step} in {self._recipe.out}, and "
                "another one an earlier one or none: expected a folder that all machines share"
            )
