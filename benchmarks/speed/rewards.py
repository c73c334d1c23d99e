"""Time of the rewards on the device: CIDEr-D and noun alignment of 100 samples with one reference each.

    python benchmarks/speed/rewards.py [--device cuda] [--batch 100] [--documents 600000] [--json]

Synthetic data: 2,600 words with Zipf frequencies, captions of 8 to 20 words, document frequencies over 600,000 of them,
and samples that are references with some words replaced. A third of the words are nouns with random vectors. The
command fails if rewards differ from a plain Python implementation by more than 1e-4 on 1,000 samples, or if on a GPU
they synchronise or cannot be captured in a CUDA graph.
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
    InverseDocumentFrequencies,
    TokenSequences,
    strip_special_tokens,
)

NUM_WORDS, TIME, DIMS = 2600, 20, 50
NUM_COMPARED = 1000


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticData:
    """Captions, samples, and nouns with vectors."""

    captions: TokenSequences
    sampled: Tensor
    rows: Tensor
    nouns: Tensor
    vectors: Tensor


def make_data(documents: int, batch: int) -> SyntheticData:
    """Draw captions with Zipf word frequencies, and samples that differ in about a third of the words."""
    generator = np.random.default_rng(0)
    chances = 1 / np.arange(1, NUM_WORDS - 3)
    words = 4 + generator.choice(NUM_WORDS - 4, size=(documents, TIME), p=chances / chances.sum())
    lengths = generator.integers(8, TIME + 1, size=documents)
    rows = generator.integers(documents, size=batch)
    changed = generator.random((batch, TIME)) < 1 / 3
    tokens = np.where(changed, words[generator.integers(documents, size=batch)], words[rows])
    positions = np.arange(TIME)
    ends = np.minimum(lengths[rows] + generator.integers(-2, 3, size=batch), TIME)[:, None]
    tokens = np.where(positions < ends, tokens, np.where(positions == ends, EOS, PAD))
    nouns = 4 + np.flatnonzero(generator.random(NUM_WORDS - 4) < 1 / 3)
    return SyntheticData(
        TokenSequences(torch.from_numpy(words), torch.from_numpy(lengths)),
        torch.from_numpy(tokens),
        torch.from_numpy(rows)[:, None],
        torch.from_numpy(nouns),
        torch.from_numpy(generator.standard_normal((len(nouns), DIMS)).astype(np.float32)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Rewards:
    """Both rewards with their prepared references."""

    cider: CiderReward
    alignment: AlignmentReward
    cider_references: CiderReferences
    alignment_references: AlignmentReferences

    def __call__(self, sampled: Tensor, rows: Tensor) -> Tensor:
        """Score sampled tokens: CIDEr-D in the first row, alignment in the second."""
        captions = strip_special_tokens(sampled, collapse=True)
        return torch.stack(
            [
                self.cider(captions, self.cider_references, rows),
                self.alignment(captions, self.alignment_references, rows),
            ]
        )


def prepare(data: SyntheticData, device: torch.device) -> Rewards:
    """Build all tables on the device."""
    captions = TokenSequences(data.captions.words.to(device), data.captions.lengths.to(device))
    cider = CiderReward(InverseDocumentFrequencies.from_captions(captions))
    alignment = AlignmentReward.from_vectors(data.nouns, data.vectors, NUM_WORDS).to(device)
    return Rewards(cider, alignment, cider.prepare(captions), alignment.prepare(captions))


def milliseconds(run: Callable[[], object], device: torch.device, rounds: int = 200) -> dict[str, float]:
    """Median and best time of a run after warm-up."""
    times = []
    for _ in range(rounds):
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    measured = [1e3 * taken for taken in times[rounds // 10 :]]
    return {"median ms": statistics.median(measured), "best ms": min(measured)}


def capture(run: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """Capture a run in a CUDA graph; replays write to the returned tensor."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = run()
    return graph, output


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
        candidate_weights, reference_weights = ({g: w for g, w in vector.items() if len(g) == n} for vector in vectors)
        norm = math.hypot(*candidate_weights.values()) * math.hypot(*reference_weights.values())
        shared = sum(
            min(weight, reference_weights.get(g, 0.0)) * reference_weights.get(g, 0.0)
            for g, weight in candidate_weights.items()
        )
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
    """Words before EOS, with consecutive repetitions collapsed."""
    words = [word for word in tokens[: tokens.index(EOS) if EOS in tokens else None] if word != PAD]
    return [word for index, word in enumerate(words) if index == 0 or word != words[index - 1]]


def max_difference(data: SyntheticData, rewards: Tensor) -> tuple[float, float]:
    """Maximum difference of both rewards from the plain implementation."""
    lengths = data.captions.lengths.tolist()
    needed = {ngram for tokens in data.sampled.tolist() for ngram in plain_ngrams(plain_words(tokens))}
    references = [data.captions.words[row, : lengths[row]].tolist() for row in data.rows[:, 0].tolist()]
    needed |= {ngram for reference in references for ngram in plain_ngrams(reference)}
    frequencies: Counter[tuple[int, ...]] = Counter()
    for words, length in zip(data.captions.words.numpy(), lengths, strict=True):
        frequencies.update(needed & plain_ngrams(words[:length].tolist()).keys())
    units = (data.vectors / data.vectors.norm(dim=1, keepdim=True)).double().numpy()
    vectors = dict(zip(data.nouns.tolist(), units, strict=True))
    found = rewards.cpu().double().numpy()
    worst = [0.0, 0.0]
    for row, (tokens, reference) in enumerate(zip(data.sampled.tolist(), references, strict=True)):
        candidate = plain_words(tokens)
        expected = (
            plain_cider(candidate, reference, frequencies, len(lengths)),
            plain_alignment(candidate, reference, vectors),
        )
        worst = [max(worst[i], abs(float(found[i, row]) - expected[i])) for i in range(2)]
    return worst[0], worst[1]


def measure(rewards: Rewards, data: SyntheticData, device: torch.device) -> dict[str, float]:
    """Milliseconds of each part and of all, eager and in a CUDA graph."""
    sampled, rows = data.sampled.to(device), data.rows.to(device)
    captions = strip_special_tokens(sampled, collapse=True)
    runs: dict[str, Callable[[], Tensor]] = {
        "strip special tokens": lambda: strip_special_tokens(sampled, collapse=True).words,
        "CIDEr-D": lambda: rewards.cider(captions, rewards.cider_references, rows),
        "alignment": lambda: rewards.alignment(captions, rewards.alignment_references, rows),
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
            graph, output = capture(run)
            figures |= {f"{name}, graph, {what}": taken for what, taken in milliseconds(graph.replay, device).items()}
            if name == "all" and not torch.equal(output, expected):
                raise SystemExit("the CUDA graph gives other rewards than eager execution")
    return figures


def main() -> None:
    """Compare with the plain implementation, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--documents", type=int, default=600_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = torch.device(options.device)

    compared = make_data(options.documents, max(options.batch, NUM_COMPARED))
    start = time.perf_counter()
    rewards = prepare(compared, device)
    preparation = time.perf_counter() - start
    output = rewards(compared.sampled.to(device), compared.rows.to(device))
    cider, alignment = max_difference(compared, output)

    figures: dict[str, float | str] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "CPU",
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "batch": options.batch,
        "documents": options.documents,
        "n-grams in the table": len(rewards.cider.idf.ngrams),
        "maximum nouns of a reference": rewards.alignment_references.nouns.shape[1],
        "preparation, s": preparation,
        "largest difference, CIDEr-D": cider,
        "largest difference, alignment": alignment,
    }
    sampled, rows = compared.sampled[: options.batch], compared.rows[: options.batch]
    batch = SyntheticData(compared.captions, sampled, rows, compared.nouns, compared.vectors)
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
