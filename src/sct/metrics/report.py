"""All metrics over one set of captions: cut into words once, and a figure or a reason for each metric."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.pos_tags import NounTagger, noun_table
from sct.language.word_vectors import WordVectors, load_vectors
from sct.metrics.bleu import Bleu, bleu
from sct.metrics.captions import Pairs, collapse_repeats, pair, pair_on_spaces, pair_words
from sct.metrics.cider import cider_d
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.meteor import meteor
from sct.metrics.noun_alignment import noun_alignment
from sct.metrics.noun_iou import noun_iou
from sct.metrics.rouge import rouge_l
from sct.metrics.spice import spice

METRICS = ("B1", "B2", "B3", "B4", "M", "R", "C", "S", "NW", "IoU")
"""BLEU of one to four words, METEOR, ROUGE-L, CIDEr-D, SPICE, noun alignment, noun IoU: the names in the tables."""
TABLE_METRICS = ("B4", "M", "R", "C", "S", "NW", "IoU")
"""Those that the paper's tables print."""
_AS_THEY_ARE = ("NW",)
"""What the tables do not print times 100."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Report:
    """Figures by the names of the paper's tables, in the units of the official tools."""

    corpus: Mapping[str, float | None]
    """None where a metric could not run."""
    per_caption: Mapping[str, Float[np.ndarray, " captions"]]
    """Of the metrics that could."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Why a metric has no figure, and what to do about it."""
    groups: int
    """Candidates, each with its references."""
    vectors: str | None = None
    """The word vectors by which nouns were compared, if they were."""

    def in_paper_units(self) -> dict[str, float | None]:
        """The figures as the paper's tables print them, and the number of groups: NW as it is, all else times 100.

        >>> Report(corpus={"C": 1.93, "S": None, "NW": 0.5}, per_caption={}, groups=7).in_paper_units()
        {'C': 193.0, 'S': None, 'NW': 0.5, 'groups': 7}
        """
        figures = {name: None if value is None else value * unit(name) for name, value in self.corpus.items()}
        return {**figures, "groups": self.groups}


def unit(name: str) -> float:
    """What the paper's tables multiply a metric by."""
    return 1.0 if name in _AS_THEY_ARE else 100.0


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
    """Judge each candidate by its references with the chosen metrics.

    Nouns are those of ``nouns``, or, without such a table, what spaCy calls a noun in its caption, with ``vectors``
    (GloVe if not given). ``frequencies`` are CIDEr's; without them the groups of references are its documents.
    ``reference`` judges as the authors' released code does: the same word several times in a row counts once in a
    candidate, and words are cut at spaces to find nouns, so references should come without punctuation.
    ``progress`` is told the metrics done and the number of all.

    >>> score(["a dog"], [["A dog.", "a cat"]], ["R"]).corpus
    {'R': 1.0}
    """
    names = checked_metrics(metrics)
    said = list(map(collapse_repeats, candidates)) if reference else candidates
    judge = _Judge(said, references, nouns, vectors, reference)
    runs: dict[str, Callable[[], Score]] = {
        "B1": lambda: judge.bleu.bleu_1,
        "B2": lambda: judge.bleu.bleu_2,
        "B3": lambda: judge.bleu.bleu_3,
        "B4": lambda: judge.bleu.bleu_4,
        "M": lambda: meteor(judge.pairs),
        "R": lambda: rouge_l(judge.pairs),
        "C": lambda: cider_d(judge.pairs, frequencies),
        "S": lambda: spice(judge.pairs),
        "NW": lambda: noun_alignment(judge.nouns.pairs, judge.nouns.table, reference=reference),
        "IoU": lambda: noun_iou(judge.nouns.pairs, judge.nouns.table, reference=reference),
    }
    found: dict[str, Score] = {}
    unavailable: dict[str, str] = {}
    num_groups = len(judge.pairs)  # also checks what came, whatever the metrics
    for done, name in enumerate(names, start=1):
        try:
            found[name] = runs[name]()
        except MetricUnavailable as reason:
            unavailable[name] = str(reason)
        if progress is not None:
            progress(done, len(names))
    return Report(
        corpus={name: found[name].corpus if name in found else None for name in names},
        per_caption={name: result.per_caption for name, result in found.items()},
        unavailable=unavailable,
        groups=num_groups,
        vectors=judge.nouns.table.vectors_name if {"NW", "IoU"} & found.keys() else None,
    )


def quick_scores(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    nouns: NounTable | None = None,
    frequencies: DocumentFrequencies | None = None,
) -> dict[str, float]:
    """CIDEr-D and BLEU-4, with a noun table NW too, in the paper's units: what a training loop looks at.

    It needs neither Java nor spaCy.

    >>> found = quick_scores(["a dog runs in grass", "a cat"], [["a dog runs in grass"], ["a bird"]])
    >>> {name: round(figure) for name, figure in found.items()}  # 10 for the first, 0 for the second, times 100 / 2
    {'C': 500, 'B4': 91}
    """
    chosen = ["C", "B4"] if nouns is None else ["C", "B4", "NW"]
    report = score(candidates, references, chosen, nouns=nouns, frequencies=frequencies)
    return {name: value * unit(name) for name, value in report.corpus.items() if value is not None}


def checked_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """The metrics by their proper names, each once, in the order asked; "b4" and "iou" will do.

    >>> checked_metrics(["c", "IoU", "C"])
    ('C', 'IoU')
    """
    proper = {name.lower(): name for name in METRICS}
    unknown = next((name for name in names if name.lower() not in proper), None)
    if unknown is not None:
        raise InputError(f"metric {unknown!r} is unknown: expected some of {', '.join(METRICS)}")
    if not names:
        raise InputError(f"no metric was asked for: expected some of {', '.join(METRICS)}")
    return tuple(dict.fromkeys(proper[name.lower()] for name in names))


@dataclass(frozen=True, slots=True, eq=False)
class _Nouns:
    """Captions cut for the metrics that compare nouns, and what counts as a noun in them."""

    pairs: Pairs
    table: NounTable


class _Judge:
    """Captions as metrics want them; what several metrics need is made once, and only if one of them asks."""

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
    def nouns(self) -> _Nouns:
        if self._reference:
            # The authors keep the words of a table of nouns; without theirs, the usual nouns of the references do.
            table = self._table
            if table is None:
                table = noun_table(self._all_words(candidates=False), self._word_vectors(), _tagger())
            return _Nouns(pair_on_spaces(self._candidates, self._references), table)
        if self._table is not None:
            return _Nouns(self.pairs, self._table)
        return self._tagged()

    def _tagged(self) -> _Nouns:
        """Leave the words that are nouns where they stand."""
        vectors, tagger = self._word_vectors(), _tagger()
        different = dict.fromkeys(tuple(words) for words in self._all_words(candidates=True))
        nouns_of = dict(zip(different, tagger.nouns(different), strict=True))
        rows = range(len(self.pairs))
        said = [nouns_of[tuple(self.pairs.candidate(row))] for row in rows]
        expected = [[nouns_of[tuple(words)] for words in self.pairs.references_of(row)] for row in rows]
        table = NounTable.look_up((noun for nouns in nouns_of.values() for noun in nouns), vectors)
        return _Nouns(pair_words(said, expected), table)

    def _all_words(self, *, candidates: bool) -> list[list[str]]:
        rows = range(len(self.pairs))
        said = [self.pairs.candidate(row) for row in rows] if candidates else []
        return said + [words for row in rows for words in self.pairs.references_of(row)]

    def _word_vectors(self) -> WordVectors:
        try:
            return self._vectors or load_vectors()
        except InputError as error:
            raise MetricUnavailable(f"nouns cannot be compared: {error}") from error


def _tagger() -> NounTagger:
    try:
        return NounTagger()
    except InputError as error:
        raise MetricUnavailable(f"nouns cannot be told: {error}") from error
