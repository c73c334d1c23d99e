"""The folder of a run, which stays in order however the run ends.

| name | holds |
| --- | --- |
| `recipe.toml` | the resolved recipe |
| `checkpoint.safetensors` | all that is needed to go on |
| `metrics.jsonl`, `tensorboard/` | what was measured |
| `bundles/step-00001200/` | the captioner after so many steps |
| `best`, `last` | links to the bundles of the highest score and of the newest |
| `.lock` | held by the process that trains here |

A bundle is written first, then the checkpoint that names it, then the links are moved, then older bundles go. So the
checkpoint is the truth at every instant: what it names is there, and a run that goes on from it puts the links right.
"""

import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from torch import Tensor

from sct.errors import InputError
from sct.storage.atomic import atomic_write, fsync_dir, lock
from sct.training.captioner.config import (
    Recipe,
    load_recipe,
    may_change_on_resume,
    recipe_fingerprint,
    recipe_text,
)
from sct.training.checkpoint import Checkpoint, TrainState, load_checkpoint, save_checkpoint
from sct.training.config import as_word, flat_settings
from sct.training.metric_logger import METRICS, MetricLogger

logger = logging.getLogger(__name__)

RECIPE, CHECKPOINT, BUNDLES, BEST, LAST = "recipe.toml", "checkpoint.safetensors", "bundles", "best", "last"
LOCK = ".lock"


class RunDir:
    """A run's folder, held by one training process until it is closed.

    Of several processes that train together only one ``writes``; to the others the folder is a place to read from.
    """

    def __init__(self, path: Path, recipe: Recipe, held: BinaryIO | None, checkpoint: Checkpoint | None) -> None:
        """Take what ``create`` or ``resume`` has made sure of."""
        self.path = path
        self.checkpoint = checkpoint
        """Where the run goes on from; none: from the beginning."""
        self._fingerprint = recipe_fingerprint(recipe)
        self._held = held

    @classmethod
    def create(cls, path: Path, recipe: Recipe, *, writes: bool = True) -> "RunDir":
        """Begin a run; a folder that holds one already is refused.

        One that failed before it had anything to show, because its dataset was misspelt say, is written over.
        """
        if not writes:
            return cls(path, recipe, None, None)
        held = _hold(path)
        try:
            found = [name for name in (CHECKPOINT, METRICS, BUNDLES, BEST, LAST) if _holds(path / name)]
            if found:
                raise InputError(
                    f"{path} holds a run already ({', '.join(found)}): go on with --resume, or name another by out=DIR"
                )
            _write_recipe(path, recipe)
        except BaseException:
            held.close()
            raise
        return cls(path, recipe, held, None)

    @classmethod
    def resume(cls, path: Path, recipe: Recipe, *, writes: bool = True) -> "RunDir":
        """Go on with a run from its checkpoint, or from the beginning if it was killed before the first one.

        The recipe must be the run's own, but for how far and on what it goes. What a kill left behind is removed.
        """
        fingerprint = recipe_fingerprint(recipe)
        if not writes:
            return cls(path, recipe, None, _load(path, fingerprint))
        if not path.is_dir():
            raise InputError(
                f"{path} does not exist, so there is no run to go on with: leave --resume out to begin one"
            )
        held = _hold(path)
        try:
            _check_recipe(path, recipe)
            checkpoint = _load(path, fingerprint)
            if checkpoint is None and (_is_there(path / BEST) or _is_there(path / LAST)):
                # A run has no bundles before its first checkpoint, and to begin anew would remove these.
                raise InputError(
                    f"{path} has bundles, but its {CHECKPOINT} was removed: bring it back, or begin a run with out=DIR"
                )
            _write_recipe(path, recipe)
            _remove_parts(path)
            facts = _without_missing_bundles(path, TrainState() if checkpoint is None else checkpoint.facts)
            _put_in_order(path, facts)
        except BaseException:
            held.close()
            raise
        return cls(path, recipe, held, None if checkpoint is None else replace(checkpoint, facts=facts))

    @property
    def writes(self) -> bool:
        """Whether this process is the one that writes."""
        return self._held is not None

    def journal(self, *, tensorboard: bool = True) -> MetricLogger:
        """Open the run's journal where the checkpoint left it."""
        facts = TrainState() if self.checkpoint is None else self.checkpoint.facts
        return MetricLogger(
            self.path, length=facts.journal_bytes, step=facts.step, writes=self.writes, tensorboard=tensorboard
        )

    def write_bundle(self, step: int, write: Callable[[Path], None]) -> str:
        """Have a bundle written and give its name, for the next checkpoint to name as best or last.

        ``write`` is given a folder that is not there yet and must make it whole or not at all, as ``save_bundle`` does.
        A bundle that no checkpoint names is removed when the next one is saved.
        """
        name, number = f"step-{step:08}", 2
        if self.writes:
            while _is_there(self.path / BUNDLES / name):
                name, number = f"step-{step:08}-{number}", number + 1
            write(self.path / BUNDLES / name)
        return name

    def save_checkpoint(self, tensors: Mapping[str, Tensor], facts: TrainState) -> None:
        """Save where the run stands, then point ``best`` and ``last`` at the bundles that ``facts`` names."""
        if self.writes:
            facts = _without_missing_bundles(self.path, facts)
            save_checkpoint(self.path / CHECKPOINT, tensors, facts, self._fingerprint)
            _put_in_order(self.path, facts)

    def close(self) -> None:
        """Let another process train here."""
        if self._held is not None:
            self._held.close()

    def __enter__(self) -> "RunDir":
        """Close it at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, whatever happened."""
        self.close()


def _is_there(path: Path) -> bool:
    """Also if it is a link to nowhere."""
    return os.path.lexists(path)


def _holds(path: Path) -> bool:
    """Whether something is there that was worth writing."""
    return _is_there(path) and not (path.is_file() and not path.stat().st_size)


def _hold(path: Path) -> BinaryIO:
    """Keep other processes out; a kill lets them in again."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: name a folder for the run with out=DIR")
    path.mkdir(parents=True, exist_ok=True)
    held = (path / LOCK).open("ab")
    try:
        lock(held, path)
    except BaseException:
        held.close()
        raise
    return held


def _load(path: Path, fingerprint: str) -> Checkpoint | None:
    return load_checkpoint(path / CHECKPOINT, fingerprint) if _is_there(path / CHECKPOINT) else None


def _write_recipe(path: Path, recipe: Recipe) -> None:
    with atomic_write(path / RECIPE) as file:
        file.write(recipe_text(recipe).encode("utf-8"))


def _check_recipe(path: Path, recipe: Recipe) -> None:
    """Refuse to go on with another recipe than the run was begun with."""
    if not (path / RECIPE).exists():
        others = sorted(child.name for child in path.iterdir() if child.name not in (LOCK, f".{RECIPE}.part"))
        if others:
            raise InputError(
                f"{path} holds {', '.join(others[:3])}, but no {RECIPE}, so it is no run: name one with out=DIR"
            )
        return  # killed before it wrote the first thing
    begun, now = flat_settings(load_recipe(path / RECIPE)), flat_settings(recipe)
    changed = [key for key in now if now[key] != begun[key] and not may_change_on_resume(key)]
    if changed:
        before = " ".join(f"{key}={as_word(begun[key])}" for key in changed)
        given = " ".join(f"{key}={as_word(now[key])}" for key in changed)
        raise InputError(
            f"{path} was begun with {before}, and now came {given}: give {before}, or begin another run with out=DIR"
        )


def _remove_parts(path: Path) -> None:
    """Remove what was being written when a run was killed."""
    for part in [*path.glob(".*.part"), *(path / BUNDLES).glob(".*.part")]:
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink()


def _without_missing_bundles(path: Path, facts: TrainState) -> TrainState:
    """Forget bundles that somebody removed."""
    for name in {facts.best_bundle, facts.last_bundle} - {""}:
        if not (path / BUNDLES / name).is_dir():
            logger.warning("%s was removed: going on without it", path / BUNDLES / name)
            facts = replace(
                facts,
                best_bundle="" if facts.best_bundle == name else facts.best_bundle,
                last_bundle="" if facts.last_bundle == name else facts.last_bundle,
            )
    return facts


def _put_in_order(path: Path, facts: TrainState) -> None:
    """Point the links at the bundles of the checkpoint, then remove all other bundles."""
    _link(path / BEST, facts.best_bundle)
    _link(path / LAST, facts.last_bundle)
    fsync_dir(path)
    bundles = path / BUNDLES
    for bundle in bundles.iterdir() if bundles.is_dir() else ():
        if bundle.name not in (facts.best_bundle, facts.last_bundle):
            # Renamed first, so that whatever has a bundle's name is whole.
            doomed = bundle.with_name(f".{bundle.name.strip('.')}.part")
            shutil.rmtree(bundle.rename(doomed) if bundle != doomed else bundle)


def _link(link: Path, bundle: str) -> None:
    """Point a link at a bundle in one instant; no bundle: no link."""
    if not bundle:
        link.unlink(missing_ok=True)
        return
    target = Path(BUNDLES) / bundle
    if link.is_symlink() and link.readlink() == target:
        return
    part = link.with_name(f".{link.name}.part")
    part.unlink(missing_ok=True)
    part.symlink_to(target, target_is_directory=True)
    part.replace(link)
