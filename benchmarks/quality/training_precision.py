"""Validation CIDEr of the cross-entropy stage in bfloat16 mixed precision and in float32, three seeds each.

    python benchmarks/quality/training_precision.py DATASET OUT [--steps 300] [--batch 500]      # on a GPU

Runs have the paper's sizes and stop after the same number of steps; batch size and learning rate are larger than the
paper's, to get far in few steps. Compare the difference of the means with the standard deviation over seeds.
"""

import argparse
import json
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import torch

from sct.training.captioner.config import CaptionerRecipe, DeviceConfig, OptimizerConfig
from sct.training.captioner.trainer import train_captioner

SEEDS = (1, 2, 3)
PRECISIONS: tuple[Literal["bf16-mixed", "32-true"], ...] = ("bf16-mixed", "32-true")


def main() -> None:
    """Print a line per run, then means and standard deviations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    options = parser.parse_args()
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"{name}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d}")
    scores: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
    for seed in SEEDS:
        for precision in PRECISIONS:
            recipe = CaptionerRecipe(
                data=str(options.dataset),
                out=str(options.out / f"{precision}-{seed}"),
                seed=seed,
                max_steps=options.steps,
                batch_size=options.batch,
                validate_every=1000.0,
                checkpoint_every_seconds=1e6,
                optimizer=OptimizerConfig(learning_rate=options.learning_rate),
                device=DeviceConfig(precision=precision),
            )
            report = train_captioner(recipe)
            assert report.best_score is not None
            scores[precision].append(report.best_score)
            line = {"precision": precision, "seed": seed, "val_C": report.best_score, "seconds": report.seconds}
            print(json.dumps(line), flush=True)
    means = {precision: statistics.mean(found) for precision, found in scores.items()}
    stds = {precision: statistics.stdev(found) for precision, found in scores.items()}
    print(json.dumps({"mean": means, "standard_deviation": stds}))


if __name__ == "__main__":
    main()
