"""Several metrics over one set of captions, tokenised once; a metric that cannot run reports a reason instead."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.pos_tags import PosTagger, majority_nouns, shared_tagger
from sct.language.word_vectors import WordVectors, load_vectors
from sct.metrics.bleu import Bleu, bleu
from sct.metrics.captions import Pairs, collapse_repeats, pair, pair_on_whitespace, pair_words
from sct.metrics.cider import cider_d
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.interface import CorpusSums, MetricUnavailable, Score
from sct.metrics.meteor import meteor
from sct.metrics.noun_alignment import noun_alignment
from sct.metrics.noun_iou import noun_iou
from sct.metrics.rouge import rouge_l
from sct.metrics.spice import spice

METRICS = ("B1", "B2", "B3", "B4", "M", "R", "C", "S", "NW", "IoU")
"""BLEU-1 to BLEU-4, METEOR, ROUGE-L, CIDEr-D, SPICE, noun alignment, noun IoU, as the paper's tables name them."""
TABLE_METRICS = ("B4", "M", "R", "C", "S", "NW", "IoU")
"""Metrics of the paper's tables."""
_UNSCALED = ("NW",)
"""Metrics that the tables do not multiply by 100."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Report:
    """Scores by metric name, in the units of the official tools."""

    corpus: Mapping[str, float | None]
    """None for a metric that could not run."""
    per_caption: Mapping[str, Float[np.ndarray, " captions"]]
    """Scores of the metrics that ran."""
    sums: Mapping[str, CorpusSums] = field(default_factory=dict)
    """Sums that the corpus scores of the metrics that ran come from."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Reason and remedy for each metric that could not run."""
    num_groups: int
    """Number of candidates, each with its group of references."""
    vectors: str | None = None
    """Name of the word vectors of NW and IoU, if these ran."""

    def in_paper_units(self) -> dict[str, float | None]:
        """Corpus scores as in the paper's tables, times 100 except NW, and the number of groups.

        >>> Report(corpus={"C": 1.93, "S": None, "NW": 0.5}, per_caption={}, num_groups=7).in_paper_units()
        {'C': 193.0, 'S': None, 'NW': 0.5, 'groups': 7}
        """
        scores = {name: None if value is None else value * scale(name) for name, value in self.corpus.items()}
        return {**scores, "groups": self.num_groups}


def scale(name: str) -> float:
    """Factor by which the paper's tables multiply a metric."""
    return 1.0 if name in _UNSCALED else 100.0


def score(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = METRICS,
    *,
    nouns: NounTable | None = None,
    vectors: WordVectors | None = None,
    frequencies: DocumentFrequencies | None = None,
    reference: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> Report:
    """Score each candidate against its references with the given metrics.

    ``nouns`` defines the nouns of NW and IoU; without it spaCy tags them, and ``vectors`` (by default GloVe) compares
    them. ``frequencies`` are the document frequencies of CIDEr-D, by default counted over the groups of references.
    ``reference`` scores as the authors' released code: consecutive repetitions in candidates are collapsed, and nouns
    are found by splitting on whitespace, so references should have no punctuation.
    ``progress`` is called with the number of finished metrics and their total.

    >>> score(["a dog"], [["A dog.", "a cat"]], ["R"]).corpus
    {'R': 1.0}
    """
    names = check_metrics(metrics)
    captions = list(map(collapse_repeats, candidates)) if reference else candidates
    inputs = _MetricInputs(captions, references, nouns, vectors, reference)
    metric_functions: dict[str, Callable[[], Score]] = {
        "B1": lambda: inputs.bleu.bleu_1,
        "B2": lambda: inputs.bleu.bleu_2,
        "B3": lambda: inputs.bleu.bleu_3,
        "B4": lambda: inputs.bleu.bleu_4,
        "M": lambda: meteor(inputs.pairs),
        "R": lambda: rouge_l(inputs.pairs),
        "C": lambda: cider_d(inputs.pairs, frequencies),
        "S": lambda: spice(inputs.pairs),
        "NW": lambda: noun_alignment(inputs.nouns.pairs, inputs.nouns.table, reference=reference),
        "IoU": lambda: noun_iou(inputs.nouns.pairs, inputs.nouns.table, reference=reference),
    }
    scores: dict[str, Score] = {}
    unavailable: dict[str, str] = {}
    num_groups = len(inputs.pairs)  # validates the captions, whatever the metrics
    for done, name in enumerate(names, start=1):
        try:
            scores[name] = metric_functions[name]()
        except MetricUnavailable as reason:
            unavailable[name] = str(reason)
        if progress is not None:
            progress(done, len(names))
    return Report(
        corpus={name: scores[name].corpus if name in scores else None for name in names},
        per_caption={name: result.per_caption for name, result in scores.items()},
        sums={name: result.sums for name, result in scores.items() if result.sums is not None},
        unavailable=unavailable,
        num_groups=num_groups,
        vectors=inputs.nouns.table.vectors_name if {"NW", "IoU"} & scores.keys() else None,
    )


def quick_scores(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    nouns: NounTable | None = None,
    frequencies: DocumentFrequencies | None = None,
) -> dict[str, float]:
    """CIDEr-D, BLEU-4 and, with a noun table, NW, in the paper's units: for validation during training.

    Needs neither Java nor spaCy.

    >>> scores = quick_scores(["a dog runs in grass", "a cat"], [["a dog runs in grass"], ["a bird"]])
    >>> {name: round(value) for name, value in scores.items()}  # C: 10 and 0, averaged, times 100
    {'C': 500, 'B4': 91}
    """
    names = ["C", "B4"] if nouns is None else ["C", "B4", "NW"]
    report = score(candidates, references, names, nouns=nouns, frequencies=frequencies)
    return {name: value * scale(name) for name, value in report.corpus.items() if value is not None}


def check_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """Canonical names of metrics, given in any case; duplicates are dropped.

    >>> check_metrics(["c", "IoU", "C"])
    ('C', 'IoU')
    """
    canonical = {name.lower(): name for name in METRICS}
    unknown = next((name for name in names if name.lower() not in canonical), None)
    if unknown is not None:
        raise InputError(f"got unknown metric {unknown!r}, expected some of {', '.join(METRICS)}")
    if not names:
        raise InputError(f"got no metrics, expected some of {', '.join(METRICS)}")
    return tuple(dict.fromkeys(canonical[name.lower()] for name in names))


@dataclass(frozen=True, slots=True, eq=False)
class _NounInputs:
    """Captions tokenised for NW and IoU, and the table of their nouns."""

    pairs: Pairs
    table: NounTable


class _MetricInputs:
    """Tokenised captions and intermediate results shared by several metrics, computed on first use."""

    def __init__(
        self,
        candidates: Sequence[str],
        references: Sequence[Sequence[str]],
        table: NounTable | None,
        vectors: WordVectors | None,
        reference: bool,
    ) -> None:
        self._candidates, self._references = candidates, references
        self._table, self._vectors, self._reference = table, vectors, reference

    @cached_property
    def pairs(self) -> Pairs:
        return pair(self._candidates, self._references)

    @cached_property
    def bleu(self) -> Bleu:
        return bleu(self.pairs)

    @cached_property
    def nouns(self) -> _NounInputs:
        if self._reference:
            # The authors keep the words of their noun table; by default use the majority nouns of the references.
            table = self._table
            if table is None:
                nouns = majority_nouns(self._all_words(candidates=False), _load_tagger())
                table = NounTable.from_nouns(nouns, self._word_vectors())
            return _NounInputs(pair_on_whitespace(self._candidates, self._references), table)
        if self._table is not None:
            return _NounInputs(self.pairs, self._table)
        return self._tag_nouns()

    def _tag_nouns(self) -> _NounInputs:
        """Keep the words that spaCy tags as nouns in context."""
        vectors, tagger = self._word_vectors(), _load_tagger()
        distinct = dict.fromkeys(tuple(words) for words in self._all_words(candidates=True))
        nouns_of_caption = dict(zip(distinct, tagger.nouns(distinct), strict=True))
        rows = range(len(self.pairs))
        candidates = [nouns_of_caption[tuple(self.pairs.candidate_words(row))] for row in rows]
        references = [[nouns_of_caption[tuple(words)] for words in self.pairs.reference_words(row)] for row in rows]
        table = NounTable.from_nouns((noun for nouns in nouns_of_caption.values() for noun in nouns), vectors)
        return _NounInputs(pair_words(candidates, references), table)

    def _all_words(self, *, candidates: bool) -> list[list[str]]:
        rows = range(len(self.pairs))
        captions = [self.pairs.candidate_words(row) for row in rows] if candidates else []
        return captions + [words for row in rows for words in self.pairs.reference_words(row)]

    def _word_vectors(self) -> WordVectors:
        try:
            return self._vectors or load_vectors()
        except InputError as error:
            raise MetricUnavailable(f"cannot compare nouns: {error}") from error


def _load_tagger() -> PosTagger:
    try:
        return shared_tagger()
    except InputError as error:
        raise MetricUnavailable(f"cannot tag nouns: {error}") from error
