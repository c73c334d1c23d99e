"""How different several captions of an image are, and how good the best of them is by each metric."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sct.metrics.bleu import bleu
from sct.metrics.caption_sets import caption_sets
from sct.metrics.captions import Pairs
from sct.metrics.cider import cider_d
from sct.metrics.diversity import best_of_n, distinct_ngrams, mutual_bleu
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.meteor import meteor
from sct.metrics.report import checked_metrics, unit
from sct.metrics.rouge import rouge_l
from sct.metrics.self_cider import self_cider
from sct.metrics.spice import spice

ORACLE_METRICS = ("B1", "B2", "B3", "B4", "M", "R", "C", "S")
"""Those that the paper's Table 7 and its like choose the best caption by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityReport:
    """Figures over images with several captions."""

    diversity: Mapping[str, float | None]
    """Div-1, Div-2, mBLEU and self-CIDEr, each from 0 to 1; None where there is nothing to compare."""
    oracle: Mapping[str, float | None]
    """The best caption of each image by each metric, in the units of the paper's tables; None: it could not run."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Why a figure is missing."""
    images: int
    captions_per_image: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        counts = {"images": self.images, "captions_per_image": self.captions_per_image}
        return {"diversity": {**self.diversity, **counts}, "oracle": dict(self.oracle)}


def diversity_report(
    captions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str],
    progress: Callable[[int, int | None], None] | None = None,
    *,
    frequencies: DocumentFrequencies | None = None,
) -> DiversityReport:
    """Compare the captions of each image with each other and with its references.

    Images with one caption count for the oracle alone: there is nothing to compare it with. ``frequencies`` are those
    of CIDEr and self-CIDEr; without them the references of each image are a document.
    """
    chosen = [name for name in checked_metrics(metrics) if name in ORACLE_METRICS]
    sets = caption_sets(captions, references)
    frequencies = frequencies or sets.frequencies()
    runs = _oracle_runs(frequencies)
    oracle: dict[str, float | None] = {}
    unavailable: dict[str, str] = {}
    for done, name in enumerate(chosen, start=1):
        try:
            oracle[name] = best_of_n(sets, runs[name]).corpus * unit(name)
        except MetricUnavailable as reason:
            oracle[name], unavailable[name] = None, str(reason)
        if progress is not None:
            progress(done, len(chosen))
    several = [row for row, group in enumerate(captions) if len(group) > 1]
    if not several:
        unavailable["diversity"] = "no image has more than one caption: expected several to compare with each other"
    elif frequencies.num_documents < 2:
        unavailable["self-CIDEr"] = (
            "words are weighed by how many images have them, and there is one image: expected two or more, or saved "
            "document frequencies"
        )
    return DiversityReport(
        diversity=_figures([captions[row] for row in several], frequencies),
        oracle=oracle,
        unavailable=unavailable,
        images=len(sets),
        captions_per_image=len(sets.captions) / len(sets),
    )


def _oracle_runs(frequencies: DocumentFrequencies) -> dict[str, Callable[[Pairs], Score]]:
    runs: dict[str, Callable[[Pairs], Score]] = {
        "B1": lambda pairs: bleu(pairs).bleu_1,
        "B2": lambda pairs: bleu(pairs).bleu_2,
        "B3": lambda pairs: bleu(pairs).bleu_3,
        "B4": lambda pairs: bleu(pairs).bleu_4,
        "M": meteor,
        "R": rouge_l,
        "C": partial(cider_d, frequencies=frequencies),
        "S": spice,
    }
    return runs


def _figures(captions: Sequence[Sequence[str]], frequencies: DocumentFrequencies) -> dict[str, float | None]:
    if not captions:
        return dict.fromkeys(("Div-1", "Div-2", "mBLEU", "self-CIDEr"))
    sets = caption_sets(captions)
    return {
        "Div-1": distinct_ngrams(sets, 1).corpus,
        "Div-2": distinct_ngrams(sets, 2).corpus,
        "mBLEU": mutual_bleu(sets).corpus,
        "self-CIDEr": self_cider(sets, frequencies).corpus if frequencies.num_documents > 1 else None,
    }
