"""Run directory of a training run, consistent whenever the run is killed.

| name | content |
| --- | --- |
| `recipe.toml` | the resolved recipe |
| `checkpoint.safetensors` | everything a resumed run needs |
| `metrics.jsonl`, `tensorboard/` | logged metrics |
| `bundles/step-00001200/` | captioner or sorter after 1,200 steps |
| `best`, `last` | symbolic links to the bundles of the best score and of the newest step |
| `.lock` | locked by the training process |

A bundle is written first, then the checkpoint that names it, then the links are moved and older bundles removed. So at
every instant the bundles that the checkpoint names exist, and a resumed run repairs the links.
"""

import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

from torch import Tensor

from sct.errors import InputError
from sct.storage.atomic import atomic_write, fsync_dir, lock, make_folder, remove_empty_folders
from sct.training.checkpoint import Checkpoint, TrainState, load_checkpoint, save_checkpoint
from sct.training.config import Recipe, flatten_config, format_override
from sct.training.metric_logger import METRICS_FILE, TENSORBOARD, MetricLogger

logger = logging.getLogger(__name__)

RECIPE, CHECKPOINT, BUNDLES, BEST, LAST = "recipe.toml", "checkpoint.safetensors", "bundles", "best", "last"
LOCK = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """State of a run directory, seen from outside."""

    is_started: bool
    """Whether there is something to resume from: a checkpoint or logged metrics."""
    has_best: bool
    """Whether there is a best bundle."""
    seconds: float
    """Training time up to the checkpoint, over all calls."""


class RunDir:
    """A run directory, locked by one training process until it is closed.

    In distributed training only rank 0 ``writes``; the others read.
    """

    def __init__(
        self,
        path: Path,
        recipe: Recipe,
        lock_file: BinaryIO | None,
        checkpoint: Checkpoint | None,
        *,
        new: "_NewRun | None" = None,
    ) -> None:
        """Use ``create`` or ``resume`` instead."""
        self._new = new
        self.path = path
        self.checkpoint = checkpoint
        """Checkpoint to resume from, if any."""
        self._fingerprint = recipe.fingerprint()
        self._lock_file = lock_file

    @classmethod
    def create(cls, path: Path, recipe: Recipe, *, writes: bool = True, outputs: Sequence[str] = ()) -> "RunDir":
        """Start a run; raises if the directory holds one already, shown also by any of the files ``outputs``.

        A run that was killed before it logged anything is overwritten. One that fails so early, for example because of
        a misspelt dataset, leaves nothing behind.
        """
        if not writes:
            return cls(path, recipe, None, None)
        names = frozenset(child.name for child in path.iterdir()) if path.is_dir() else frozenset()
        new = _NewRun(names, make_folder(path))
        lock_file = _lock(path)
        try:
            found = [
                name for name in (CHECKPOINT, METRICS_FILE, BUNDLES, BEST, LAST, *outputs) if _has_content(path / name)
            ]
            if found:
                remedy = "resume it with --resume, or name" if recipe.RESUMABLE else "name"
                raise InputError(
                    f"{path} holds a run already ({', '.join(found)}): {remedy} another directory with out=DIR"
                )
            _write_recipe(path, recipe)
        except BaseException:
            new.remove(path)
            lock_file.close()
            raise
        return cls(path, recipe, lock_file, None, new=new)

    @classmethod
    def resume(cls, path: Path, recipe: Recipe, *, writes: bool = True) -> "RunDir":
        """Open a run to continue from its checkpoint, or from the start if it was killed before the first one.

        The recipe must equal the run's own, except for ``MAY_CHANGE_ON_RESUME``. Partial files are removed.
        """
        fingerprint = recipe.fingerprint()
        if not writes:
            return cls(path, recipe, None, _load_checkpoint(path, fingerprint))
        if not path.is_dir():
            raise InputError(f"{path} does not exist, so there is no run to resume: leave out --resume to start one")
        lock_file = _lock(path)
        try:
            _check_recipe(path, recipe)
            checkpoint = _load_checkpoint(path, fingerprint)
            if checkpoint is None and (_exists(path / BEST) or _exists(path / LAST)):
                # Bundles without a checkpoint: starting over would delete them.
                raise InputError(
                    f"{path} has bundles, but its {CHECKPOINT} was removed: restore it, or start a run with out=DIR"
                )
            _write_recipe(path, recipe)
            _remove_partial_files(path)
            state = _forget_missing_bundles(path, TrainState() if checkpoint is None else checkpoint.state)
            _update_links(path, state)
        except BaseException:
            lock_file.close()
            raise
        return cls(path, recipe, lock_file, None if checkpoint is None else replace(checkpoint, state=state))

    @classmethod
    def open(cls, path: Path, recipe: Recipe, *, resume: bool, writes: bool = True) -> "RunDir":
        """Start a run, or resume one."""
        return (cls.resume if resume else cls.create)(path, recipe, writes=writes)

    @staticmethod
    def status(path: Path) -> RunStatus:
        """State of the run in ``path``, which need not exist; takes no lock."""
        checkpoint = path / CHECKPOINT
        return RunStatus(
            is_started=checkpoint.exists() or _has_content(path / METRICS_FILE),
            has_best=(path / BEST).is_dir(),
            seconds=load_checkpoint(checkpoint).state.seconds if checkpoint.exists() else 0.0,
        )

    @property
    def writes(self) -> bool:
        """Whether this process writes to the directory."""
        return self._lock_file is not None

    @property
    def state(self) -> TrainState:
        """Counters to start from."""
        return TrainState() if self.checkpoint is None else self.checkpoint.state

    def metric_logger(self, *, tensorboard: bool = True) -> MetricLogger:
        """Open the metric logger where the checkpoint left it."""
        return MetricLogger(
            self.path,
            length=self.state.metrics_bytes,
            step=self.state.step,
            writes=self.writes,
            tensorboard=tensorboard,
        )

    def write_bundle(self, step: int, write: Callable[[Path], None]) -> str:
        """Write a bundle and return its name, for the next checkpoint to name as best or last.

        ``write`` gets the path of a folder to create atomically, as ``save_bundle`` does. The next checkpoint removes
        bundles that it does not name.
        """
        name, number = f"step-{step:08}", 2
        if self.writes:
            while _exists(self.path / BUNDLES / name):
                name, number = f"step-{step:08}-{number}", number + 1
            write(self.path / BUNDLES / name)
        return name

    def save_checkpoint(self, tensors: Mapping[str, Tensor], state: TrainState) -> None:
        """Save a checkpoint, then point ``best`` and ``last`` at the bundles that ``state`` names."""
        if self.writes:
            state = _forget_missing_bundles(self.path, state)
            save_checkpoint(self.path / CHECKPOINT, tensors, state, self._fingerprint)
            _update_links(self.path, state)

    def close(self) -> None:
        """Release the lock."""
        if self._lock_file is not None:
            self._lock_file.close()

    def __enter__(self) -> "RunDir":
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; a new run that failed before it logged anything is removed."""
        if error is not None and self._new is not None and not _is_started(self.path):
            self._new.remove(self.path)
        self.close()


class _NewRun(NamedTuple):
    """What a new run found and made."""

    names: frozenset[str]
    """Files that were in the run directory."""
    folders: list[Path]
    """Folders made for it."""

    def remove(self, path: Path) -> None:
        """Remove what a run that never started has written, and the folders made for it."""
        for name in {LOCK, RECIPE, METRICS_FILE} - self.names:
            (path / name).unlink(missing_ok=True)
        if TENSORBOARD not in self.names:
            shutil.rmtree(path / TENSORBOARD, ignore_errors=True)
        remove_empty_folders(self.folders)


def _is_started(path: Path) -> bool:
    """Whether a run has written anything worth keeping."""
    return any(_has_content(path / name) for name in (CHECKPOINT, METRICS_FILE, BUNDLES))


def _exists(path: Path) -> bool:
    """Whether a path exists, broken links included."""
    return os.path.lexists(path)


def _has_content(path: Path) -> bool:
    """Whether a path exists and is not an empty file."""
    return _exists(path) and not (path.is_file() and not path.stat().st_size)


def _lock(path: Path) -> BinaryIO:
    """Lock the directory; the operating system releases the lock when the process dies."""
    lock_file = (path / LOCK).open("ab")
    try:
        lock(lock_file, path)
    except BaseException:
        lock_file.close()
        raise
    return lock_file


def _load_checkpoint(path: Path, fingerprint: str) -> Checkpoint | None:
    return load_checkpoint(path / CHECKPOINT, fingerprint) if _exists(path / CHECKPOINT) else None


def _write_recipe(path: Path, recipe: Recipe) -> None:
    with atomic_write(path / RECIPE) as file:
        file.write(recipe.to_toml().encode("utf-8"))


def _check_recipe(path: Path, recipe: Recipe) -> None:
    """Raise if the run was started with another recipe."""
    if not (path / RECIPE).exists():
        others = sorted(child.name for child in path.iterdir() if child.name not in (LOCK, f".{RECIPE}.part"))
        if others:
            raise InputError(
                f"{path} holds {', '.join(others[:3])}, but no {RECIPE}, so it is not a run: name one with out=DIR"
            )
        return  # killed before the first write
    before, now = flatten_config(type(recipe).load(path / RECIPE)), flatten_config(recipe)
    changed = [key for key in now if now[key] != before[key] and not recipe.may_change_on_resume(key)]
    if changed:
        expected = " ".join(format_override(key, before[key]) for key in changed)
        got = " ".join(format_override(key, now[key]) for key in changed)
        raise InputError(
            f"{path} was started with {expected}, got {got}: give {expected}, or start another run with out=DIR"
        )


def _remove_partial_files(path: Path) -> None:
    """Remove what was being written when the run was killed."""
    for part in [*path.glob(".*.part"), *(path / BUNDLES).glob(".*.part")]:
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink()


def _forget_missing_bundles(path: Path, state: TrainState) -> TrainState:
    """Drop the names of bundles that somebody removed."""
    for name in {state.best_bundle, state.last_bundle} - {""}:
        if not (path / BUNDLES / name).is_dir():
            logger.warning("%s was removed: continuing without it", path / BUNDLES / name)
            state = replace(
                state,
                best_bundle="" if state.best_bundle == name else state.best_bundle,
                last_bundle="" if state.last_bundle == name else state.last_bundle,
            )
    return state


def _update_links(path: Path, state: TrainState) -> None:
    """Point the links at the bundles of the checkpoint, then remove all other bundles."""
    _link(path / BEST, state.best_bundle)
    _link(path / LAST, state.last_bundle)
    fsync_dir(path)
    bundles = path / BUNDLES
    for bundle in bundles.iterdir() if bundles.is_dir() else ():
        if bundle.name not in (state.best_bundle, state.last_bundle):
            # Renamed first, so that a folder with a bundle's name is always complete.
            doomed = bundle.with_name(f".{bundle.name.strip('.')}.part")
            shutil.rmtree(bundle.rename(doomed) if bundle != doomed else bundle)


def _link(link: Path, bundle: str) -> None:
    """Replace a link atomically; without a bundle, remove it."""
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
