"""Runs that write as fast as they can, to be killed by a test.

Each input line, ``N FOLDER``, starts a process that continues a run for N steps, 0 for no limit. It prints
``ready PID`` at the start and ``done CODE`` at the end. Processes are forked, because importing torch in each would
take longer than everything else.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from sct.captioner.bundle import save_bundle
from sct.language.vocabulary import SPECIAL_TOKENS, Vocabulary
from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.training.captioner.config import CaptionerRecipe
from sct.training.checkpoint import TrainState
from sct.training.run_dir import RunDir

SIZES = CaptionerConfig(vocabulary_size=5, feature_size=2, word_size=2, hidden_size=2, attention_size=2)
WORDS = Vocabulary((*SPECIAL_TOKENS, "a"), (0, 0, 0, 0, 1))


def train(folder: Path, num_steps: int) -> None:
    """Log every step, save a checkpoint every second step; every third checkpoint is the best so far."""
    captioner = build_show_control_tell(SIZES).requires_grad_(False)
    recipe = CaptionerRecipe(data="d", out="o")
    with RunDir.open(folder, recipe, resume=folder.exists()) as run, run.metric_logger(tensorboard=False) as metrics:
        state = run.state
        last = state.step + num_steps if num_steps else sys.maxsize
        for step in range(state.step + 1, last + 1):
            metrics.log("train", step, {"loss": 1.0})
            if step % 2 == 0 or step == last:
                for weight in captioner.parameters():
                    weight.fill_(step)
                name = run.write_bundle(step, lambda path: save_bundle(path, captioner, WORDS))
                state = TrainState(
                    step=step,
                    metrics_bytes=metrics.flush(),
                    best_bundle=name if step % 6 == 0 or not state.best_bundle else state.best_bundle,
                    last_bundle=name,
                )
                run.save_checkpoint({"weight": torch.full((4_000_000,), float(step))}, state)


def main() -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        train(Path(scratch) / "run", 2)  # warms up torch's lazy imports for all forks
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
