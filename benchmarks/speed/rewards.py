"""Time of the rewards on the device: CIDEr-D and noun alignment of 100 samples, against one reference each.

    python benchmarks/speed/rewards.py [--device cuda] [--batch 100] [--documents 600000] [--json]

The data is made up: words of 2,600 by Zipf's law, captions of 8 to 20 words, a document frequency table over 600,000 of
them, samples that are references with some words changed. One word in three is a noun, with a random vector.
The rewards must equal a plain Python implementation to 1e-4 on 1,000 of them, and on a GPU they must neither wait for
it nor fail to be recorded in a CUDA graph; otherwise the command fails.
"""

import argparse
import json
import math
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sct.language.vocabulary import EOS, PAD
from sct.training.rewards import (
    AlignmentReferences,
    AlignmentReward,
    CiderReferences,
    CiderReward,
    NgramWeights,
    TokenSequences,
    strip_special_tokens,
)

NUM_WORDS, TIME, DIMS = 2600, 20, 50
NUM_COMPARED = 1000


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Captions, samples of them, and what nouns there are."""

    captions: TokenSequences
    sampled: Tensor
    rows: Tensor
    nouns: Tensor
    vectors: Tensor


def make_world(documents: int, batch: int) -> World:
    """Draw captions by Zipf's law, and samples that differ from some of them in about a third of the words."""
    generator = np.random.default_rng(0)
    chances = 1 / np.arange(1, NUM_WORDS - 3)
    words = 4 + generator.choice(NUM_WORDS - 4, size=(documents, TIME), p=chances / chances.sum())
    lengths = generator.integers(8, TIME + 1, size=documents)
    rows = generator.integers(documents, size=batch)
    changed = generator.random((batch, TIME)) < 1 / 3
    tokens = np.where(changed, words[generator.integers(documents, size=batch)], words[rows])
    places = np.arange(TIME)
    ends = np.minimum(lengths[rows] + generator.integers(-2, 3, size=batch), TIME)[:, None]
    tokens = np.where(places < ends, tokens, np.where(places == ends, EOS, PAD))
    nouns = 4 + np.flatnonzero(generator.random(NUM_WORDS - 4) < 1 / 3)
    return World(
        TokenSequences(torch.from_numpy(words), torch.from_numpy(lengths)),
        torch.from_numpy(tokens),
        torch.from_numpy(rows)[:, None],
        torch.from_numpy(nouns),
        torch.from_numpy(generator.standard_normal((len(nouns), DIMS)).astype(np.float32)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Rewards:
    """Both rewards with the references they have prepared."""

    cider: CiderReward
    alignment: AlignmentReward
    cider_references: CiderReferences
    alignment_references: AlignmentReferences

    def __call__(self, sampled: Tensor, rows: Tensor) -> Tensor:
        """Score sampled tokens; the answer has CIDEr-D in the first row and alignment in the second."""
        said = strip_special_tokens(sampled, collapse=True)
        return torch.stack(
            [self.cider(said, self.cider_references, rows), self.alignment(said, self.alignment_references, rows)]
        )


def prepare(world: World, device: torch.device) -> Rewards:
    """Lay all tables on the device."""
    captions = TokenSequences(world.captions.words.to(device), world.captions.lengths.to(device))
    cider = CiderReward(NgramWeights.of_captions(captions))
    alignment = AlignmentReward.of_vectors(world.nouns, world.vectors, NUM_WORDS).to(device)
    return Rewards(cider, alignment, cider.prepare(captions), alignment.prepare(captions))


def milliseconds(run: Callable[[], object], device: torch.device, rounds: int = 200) -> dict[str, float]:
    """Median and best time of a run, after some that do not count."""
    times = []
    for _ in range(rounds):
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    counted = [1e3 * taken for taken in times[rounds // 10 :]]
    return {"median ms": statistics.median(counted), "best ms": min(counted)}


def record(run: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """Record a run in a CUDA graph; the tensor takes its answer at each replay."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answer = run()
    return graph, answer


def plain_ngrams(words: Sequence[int]) -> Counter[tuple[int, ...]]:
    """Count the n-grams of a caption."""
    return Counter(tuple(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1))


def plain_cider(
    candidate: Sequence[int], reference: Sequence[int], frequencies: Counter[tuple[int, ...]], documents: int
) -> float:
    """CIDEr-D by its definition."""
    vectors = [
        {g: c * (math.log(documents) - math.log(max(1, frequencies[g]))) for g, c in plain_ngrams(words).items()}
        for words in (candidate, reference)
    ]
    gap = max(len(candidate) - 1, 0) - max(len(reference) - 1, 0)
    total = 0.0
    for n in range(1, 5):
        said, expected = ({g: w for g, w in vector.items() if len(g) == n} for vector in vectors)
        norm = math.hypot(*said.values()) * math.hypot(*expected.values())
        shared = sum(min(weight, expected.get(g, 0.0)) * expected.get(g, 0.0) for g, weight in said.items())
        total += shared / norm if norm else 0.0
    return 10 * total / 4 * math.exp(-(gap**2) / 72)


def plain_alignment(candidate: Sequence[int], reference: Sequence[int], vectors: dict[int, np.ndarray]) -> float:
    """The Needleman-Wunsch score by its definition."""
    a, b = ([word for word in words if word in vectors] for words in (candidate, reference))
    table = np.zeros((len(a) + 1, len(b) + 1))
    table[:, 0], table[0] = -np.arange(len(a) + 1), -np.arange(len(b) + 1)
    for i, first in enumerate(a):
        for j, second in enumerate(b):
            similarity = 1.0 if first == second else float(vectors[first] @ vectors[second])
            table[i + 1, j + 1] = max(table[i, j] + similarity, table[i, j + 1] - 1, table[i + 1, j] - 1)
    return float(table[-1, -1]) / max(len(a), len(b), 1)


def plain_words(tokens: Sequence[int]) -> list[int]:
    """Words before the end, one of several equal ones in a row."""
    words = [word for word in tokens[: tokens.index(EOS) if EOS in tokens else None] if word != PAD]
    return [word for place, word in enumerate(words) if place == 0 or word != words[place - 1]]


def largest_difference(world: World, answer: Tensor) -> tuple[float, float]:
    """How far both rewards are from the plain implementation at most."""
    lengths = world.captions.lengths.tolist()
    needed = {ngram for tokens in world.sampled.tolist() for ngram in plain_ngrams(plain_words(tokens))}
    references = [world.captions.words[row, : lengths[row]].tolist() for row in world.rows[:, 0].tolist()]
    needed |= {ngram for reference in references for ngram in plain_ngrams(reference)}
    frequencies: Counter[tuple[int, ...]] = Counter()
    for words, length in zip(world.captions.words.numpy(), lengths, strict=True):
        frequencies.update(needed & plain_ngrams(words[:length].tolist()).keys())
    units = (world.vectors / world.vectors.norm(dim=1, keepdim=True)).double().numpy()
    vectors = dict(zip(world.nouns.tolist(), units, strict=True))
    found = answer.cpu().double().numpy()
    worst = [0.0, 0.0]
    for row, (tokens, reference) in enumerate(zip(world.sampled.tolist(), references, strict=True)):
        candidate = plain_words(tokens)
        expected = (
            plain_cider(candidate, reference, frequencies, len(lengths)),
            plain_alignment(candidate, reference, vectors),
        )
        worst = [max(worst[i], abs(float(found[i, row]) - expected[i])) for i in range(2)]
    return worst[0], worst[1]


def measure(rewards: Rewards, world: World, device: torch.device) -> dict[str, float]:
    """Milliseconds of each part, and of all, step by step and recorded in a CUDA graph."""
    sampled, rows = world.sampled.to(device), world.rows.to(device)
    said = strip_special_tokens(sampled, collapse=True)
    runs: dict[str, Callable[[], Tensor]] = {
        "words of the samples": lambda: strip_special_tokens(sampled, collapse=True).words,
        "CIDEr-D": lambda: rewards.cider(said, rewards.cider_references, rows),
        "alignment": lambda: rewards.alignment(said, rewards.alignment_references, rows),
        "all": lambda: rewards(sampled, rows),
    }
    figures = {
        f"{name}, {what}": taken for name, run in runs.items() for what, taken in milliseconds(run, device).items()
    }
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        expected = rewards(sampled, rows)
        torch.cuda.set_sync_debug_mode("default")
        for name, run in runs.items():
            graph, answer = record(run)
            figures |= {f"{name}, graph, {what}": taken for what, taken in milliseconds(graph.replay, device).items()}
            if name == "all" and not torch.equal(answer, expected):
                raise SystemExit("a CUDA graph answers otherwise than the steps it recorded")
    return figures


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--documents", type=int, default=600_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = torch.device(options.device)

    compared = make_world(options.documents, max(options.batch, NUM_COMPARED))
    start = time.perf_counter()
    rewards = prepare(compared, device)
    preparation = time.perf_counter() - start
    answer = rewards(compared.sampled.to(device), compared.rows.to(device))
    cider, alignment = largest_difference(compared, answer)

    figures: dict[str, float | str] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "CPU",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "batch": options.batch,
        "documents": options.documents,
        "n-grams in the table": len(rewards.cider.weights.ngrams),
        "most nouns in a reference": rewards.alignment_references.nouns.shape[1],
        "preparation, s": preparation,
        "largest difference, CIDEr-D": cider,
        "largest difference, alignment": alignment,
    }
    sampled, rows = compared.sampled[: options.batch], compared.rows[: options.batch]
    batch = World(compared.captions, sampled, rows, compared.nouns, compared.vectors)
    figures |= measure(rewards, batch, device)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name:36} {figure:.6g}" if isinstance(figure, float) else f"{name:36} {figure}")
    if max(cider, alignment) > 1e-4:
        sys.exit("the rewards differ from the plain implementation")


if __name__ == "__main__":
    main()
