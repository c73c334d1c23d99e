"""Runs that write as fast as they can, made to be killed.

Each line of the input, ``N FOLDER``, starts a process that goes on with a run for N steps, 0 for ever. ``ready PID`` is
said when that process has begun, and ``done CODE`` when it has ended. The processes are forked, as to import torch anew
for each would take longer than all the rest.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from sct.captioner.bundle import save_bundle
from sct.language.vocabulary import SPECIAL_WORDS, Vocabulary
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.training.captioner.config import Recipe
from sct.training.checkpoint import TrainState
from sct.training.run_dir import RunDir

SIZES = CaptionerConfig(vocabulary_size=5, feature_size=2, word_size=2, hidden_size=2, attention_size=2)
WORDS = Vocabulary((*SPECIAL_WORDS, "a"), (0, 0, 0, 0, 1))


def train(folder: Path, num_steps: int) -> None:
    """Write a line each step and a checkpoint each second one; every third checkpoint is the best so far."""
    captioner = build_show_control_tell(SIZES).requires_grad_(False)
    recipe = Recipe(data="d", out="o")
    begin = RunDir.resume if folder.exists() else RunDir.create
    with begin(folder, recipe) as run, run.journal(tensorboard=False) as journal:
        facts = TrainState() if run.checkpoint is None else run.checkpoint.facts
        last = facts.step + num_steps if num_steps else sys.maxsize
        for step in range(facts.step + 1, last + 1):
            journal.record("train", step, {"loss": 1.0})
            if step % 2 == 0 or step == last:
                for weight in captioner.parameters():
                    weight.fill_(step)
                name = run.write_bundle(step, lambda path: save_bundle(path, captioner, WORDS))
                facts = TrainState(
                    step=step,
                    journal_bytes=journal.settle(),
                    best_bundle=name if step % 6 == 0 or not facts.best_bundle else facts.best_bundle,
                    last_bundle=name,
                )
                run.save_checkpoint({"weight": torch.full((4_000_000,), float(step))}, facts)


def main() -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        train(Path(scratch) / "run", 2)  # here, for all: torch imports much of itself only when it is used
    for line in sys.stdin:
        num_steps, folder = line.rstrip("\n").split(" ", maxsplit=1)
        child = os.fork()
        if child == 0:
            print(f"ready {os.getpid()}", flush=True)
            train(Path(folder), int(num_steps))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(f"done {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main()
