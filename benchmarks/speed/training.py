"""Milliseconds per training step and captions per second, for the cross-entropy and the CIDEr+NW stage.

    python benchmarks/speed/training.py [--device cuda] [--batches 100 500 1000] [--precisions bf16-mixed 32-true]
    python benchmarks/speed/training.py --variants show_control_tell transformer    # side by side, in one run

Random captions and controls with the sizes at which the authors' code was measured on one H200: 2,600 words, 1,280
features, the paper's layers, 20 steps, sets of up to 20 regions. There their cross-entropy step took 110 ms for a batch
of 100 (38.6 ms as one CUDA graph), their self-critical step 1,376 ms.
"""

import argparse
import json
import platform
import statistics
import time
from datetime import UTC, datetime
from itertools import product
from typing import Literal

import numpy as np
import torch
from lightning_fabric import Fabric

from sct.data.examples import Examples
from sct.language.vocabulary import BOS, EOS, PAD
from sct.models.config import Variant
from sct.models.registry import build_model, model_spec
from sct.training.captioner.dataloader import DeviceDataLoader, RegionTable
from sct.training.captioner.noun_references import NounReferences
from sct.training.captioner.noun_rewards import NounRewards
from sct.training.captioner.objective_config import ObjectiveConfig
from sct.training.captioner.objectives import CrossEntropyObjective, SelfCriticalObjective
from sct.training.captioner.permuted_controls import num_draws
from sct.training.cuda_graph_step import LossModule, OptimizerStep, make_adam
from sct.training.rewards import AlignmentReward, CiderReward, InverseDocumentFrequencies, TokenSequences

WORDS, FEATURES, STEPS, SLOTS, MEMBERS, IMAGES, REGIONS = 2600, 1280, 20, 4, 20, 2000, 36
Precision = Literal["bf16-mixed", "32-true"]
REFERENCE_MS = {"cross_entropy": 110.0, "cider_and_nw": 1376.0}
"""Milliseconds of the authors' code on one H200, batch 100."""


def random_examples(rng: np.random.Generator) -> Examples:
    """Captions of 8 to 16 words with Zipf frequencies, and controls of 1 to 4 sets with 1 to 20 regions."""
    count = 5 * IMAGES
    num_words = rng.integers(8, 17, count)
    steps = np.arange(STEPS)
    is_word = steps < num_words[:, None]
    words = np.full((count, STEPS + 1), PAD, np.uint16)
    words[:, 0] = BOS
    words[:, 1:][is_word] = 4 + np.minimum(rng.zipf(1.3, is_word.sum()) - 1, WORDS - 5)
    words[np.arange(count), num_words + 1] = EOS
    num_slots = rng.integers(1, SLOTS + 1, count)
    slots = np.minimum(steps * num_slots[:, None] // num_words[:, None], num_slots[:, None] - 1)
    shifts = np.zeros_like(slots)
    shifts[:, :-1] = slots[:, 1:] != slots[:, :-1]
    image = np.repeat(np.arange(IMAGES), 5)
    sizes = rng.integers(1, MEMBERS + 1, (count, SLOTS))
    starts = image[:, None] * REGIONS + rng.integers(0, REGIONS - MEMBERS, (count, SLOTS))
    return Examples(
        words,
        slots.astype(np.uint8),
        shifts.astype(np.uint8),
        num_words.astype(np.uint8),
        image.astype(np.int32),
        np.arange(count, dtype=np.int32),
        starts.astype(np.int32),
        sizes.astype(np.uint8),
        num_slots.astype(np.uint8),
        np.arange(IMAGES * REGIONS, dtype=np.int32),
    )


def measure(
    variant: Variant, stage: str, batch: int, precision: Precision, device: torch.device, seconds: float
) -> dict[str, object]:
    """Median time of a step, each with other captions."""
    torch.manual_seed(1)
    examples = random_examples(np.random.default_rng(1))
    dtype = torch.bfloat16 if precision == "bf16-mixed" else torch.float32
    table = RegionTable(
        torch.randn(IMAGES * REGIONS, FEATURES, device=device, dtype=dtype),
        torch.randn(IMAGES, FEATURES, device=device, dtype=dtype),
    )
    loader = DeviceDataLoader(examples, table, device)
    config = model_spec(variant).config(vocabulary_size=WORDS, feature_size=FEATURES, variant=variant)
    network = build_model(config).train()
    objective: CrossEntropyObjective | SelfCriticalObjective
    if stage == "cross_entropy":
        objective = CrossEntropyObjective(loader, ObjectiveConfig())
    else:
        references = TokenSequences(
            torch.from_numpy(examples.words[:, 1:-1].astype(np.int64)), torch.from_numpy(examples.num_words).long()
        )
        documents = torch.from_numpy(examples.image).long()
        nouns, objective_config = torch.arange(10, WORDS, 3), ObjectiveConfig(stage="cider_and_nw")
        alignment = AlignmentReward.from_vectors(nouns, torch.randn(len(nouns), 50), WORDS).to(device)
        on_device = TokenSequences(references.words.to(device), references.lengths.to(device))
        prepared, names = alignment.prepare(on_device), torch.arange(len(nouns) + 1, device=device)
        none = torch.zeros(len(examples), loader.max_slots, 1, dtype=torch.long, device=device)
        noun_references = NounReferences(
            prepared, torch.zeros_like(prepared.nouns), none, documents.to(device), none[:IMAGES, 0]
        )
        objective = SelfCriticalObjective(
            loader,
            objective_config,
            cider=CiderReward(InverseDocumentFrequencies.from_captions(references, documents)).to(device),
            nouns=NounRewards(alignment, names, noun_references, objective_config),
            references=on_device,
        )
    fabric = Fabric(accelerator=device.type, devices=1, precision=precision)
    module = LossModule(network, objective)
    optimizer = make_adam(network.to(device), device)
    wrapped, optimizer = fabric.setup(module, optimizer)
    step = OptimizerStep(
        module, optimizer, forward=wrapped, backward=fabric.backward, clip_norm=5.0, capture=device.type == "cuda"
    )
    times: list[float] = []
    rounds = 10 if device.type == "cuda" else 1
    while len(times) < 4 or sum(times) * rounds < seconds:
        start = time.perf_counter()
        for _ in range(rounds):
            rows = torch.randint(len(loader), (batch,), device=device)
            shapes = [] if stage == "cross_entropy" else [(batch, 1, STEPS, 2), (batch, num_draws(loader.max_slots))]
            noise = [torch.rand(shape, device=device) for shape in shapes]
            step([rows, *noise], [5e-5])
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / rounds)
    milliseconds = 1000 * statistics.median(times[2:])
    report = {"variant": variant, "stage": stage, "batch": batch, "precision": precision, "ms": milliseconds}
    report["captions_per_second"] = 1000 * batch / milliseconds
    report["speedup_over_authors"] = REFERENCE_MS[stage] / milliseconds if batch == 100 else None
    report["loss"] = step.means()["loss"]
    return report


def main() -> None:
    """Print a line per stage, precision and batch size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 500, 1000])
    parser.add_argument("--precisions", nargs="+", default=["bf16-mixed", "32-true"])
    parser.add_argument("--stages", nargs="+", default=list(REFERENCE_MS))
    parser.add_argument("--variants", nargs="+", default=["show_control_tell"], help="show_control_tell, transformer")
    parser.add_argument("--seconds", type=float, default=2.0, help="minimum time per line")
    options = parser.parse_args()
    device = torch.device(options.device)
    name = (
        torch.cuda.get_device_name()
        if device.type == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    print(f"{name}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d}")
    for stage, precision, batch, variant in product(
        options.stages, options.precisions, options.batches, options.variants
    ):
        print(json.dumps(measure(variant, stage, batch, precision, device, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
