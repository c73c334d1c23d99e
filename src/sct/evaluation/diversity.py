"""Diversity of several captions per image, and the best of them by each metric."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sct.metrics.bleu import bleu
from sct.metrics.captions import Pairs, build_caption_sets
from sct.metrics.cider import cider_d
from sct.metrics.diversity import best_of_n, distinct_ngrams, mutual_bleu
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.interface import CorpusSums, MetricUnavailable, Score
from sct.metrics.meteor import meteor
from sct.metrics.report import check_metrics, scale
from sct.metrics.rouge import rouge_l
from sct.metrics.self_cider import self_cider
from sct.metrics.spice import spice

ORACLE_METRICS = ("B1", "B2", "B3", "B4", "M", "R", "C", "S")
"""Metrics that select the best caption in the paper's Table 6 and similar tables."""
DIVERSITY_METRICS = ("Div-1", "Div-2", "mBLEU", "self-CIDEr")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityScores:
    """Scores over images with several captions."""

    diversity: Mapping[str, float | None]
    """Div-1, Div-2, mBLEU and self-CIDEr, from 0 to 1; None if no image has several captions."""
    oracle: Mapping[str, float | None]
    """Score of the best caption of each image by each metric, in the paper's units; None if a metric could not run."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Reason for each missing score."""
    num_images: int
    num_captions: int
    oracle_sums: Mapping[str, CorpusSums]
    """Sums that ``oracle`` comes from, for the metrics that ran."""
    diversity_sums: Mapping[str, CorpusSums]
    """Sums that ``diversity`` comes from."""

    @property
    def captions_per_image(self) -> float:
        """Average number of captions."""
        return self.num_captions / self.num_images


def score_diversity(
    captions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str],
    progress: Callable[[int, int | None], None] | None = None,
    *,
    frequencies: DocumentFrequencies | None = None,
) -> DiversityScores:
    """Compare the captions of each image with each other and with its references.

    Images with one caption count for the oracle only. ``frequencies`` are the document frequencies of CIDEr-D and
    self-CIDEr, by default counted with the references of each image as a document.
    """
    names = [name for name in check_metrics(metrics) if name in ORACLE_METRICS]
    sets = build_caption_sets(captions, references)
    frequencies = frequencies or DocumentFrequencies.from_references(sets)
    metric_functions = _oracle_metrics(frequencies)
    oracle: dict[str, Score] = {}
    unavailable: dict[str, str] = {}
    for done, name in enumerate(names, start=1):
        try:
            oracle[name] = best_of_n(sets, metric_functions[name])
        except MetricUnavailable as reason:
            unavailable[name] = str(reason)
        if progress is not None:
            progress(done, len(names))
    comparable = [group for group in captions if len(group) > 1]
    diversity = _score_sets(comparable, frequencies) if comparable else {}
    return DiversityScores(
        diversity={name: diversity[name].corpus if name in diversity else None for name in DIVERSITY_METRICS},
        oracle={name: oracle[name].corpus * scale(name) if name in oracle else None for name in names},
        unavailable=unavailable | explain_missing_diversity(len(comparable), frequencies.num_documents),
        num_images=len(sets),
        num_captions=len(sets.captions),
        oracle_sums=_sums(oracle),
        diversity_sums=_sums(diversity),
    )


def explain_missing_diversity(num_comparable: int, num_documents: int) -> dict[str, str]:
    """Reasons for missing diversity scores: too few images with several captions, or too few documents."""
    if not num_comparable:
        return {"diversity": "no image has several captions, expected at least 2 to compare"}
    if num_documents < 2:
        return {
            "self-CIDEr": "document frequencies need at least 2 images, got 1: add images, or give saved document "
            "frequencies"
        }
    return {}


def _sums(scores: Mapping[str, Score]) -> dict[str, CorpusSums]:
    return {name: score.sums for name, score in scores.items() if score.sums is not None}


def _oracle_metrics(frequencies: DocumentFrequencies) -> dict[str, Callable[[Pairs], Score]]:
    return {
        "B1": lambda pairs: bleu(pairs).bleu_1,
        "B2": lambda pairs: bleu(pairs).bleu_2,
        "B3": lambda pairs: bleu(pairs).bleu_3,
        "B4": lambda pairs: bleu(pairs).bleu_4,
        "M": meteor,
        "R": rouge_l,
        "C": partial(cider_d, frequencies=frequencies),
        "S": spice,
    }


def _score_sets(captions: Sequence[Sequence[str]], frequencies: DocumentFrequencies) -> dict[str, Score]:
    sets = build_caption_sets(captions)
    scores = {"Div-1": distinct_ngrams(sets, 1), "Div-2": distinct_ngrams(sets, 2), "mBLEU": mutual_bleu(sets)}
    if frequencies.num_documents > 1:
        scores["self-CIDEr"] = self_cider(sets, frequencies)
    return scores
