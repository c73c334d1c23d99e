"""The judge: one file per metric, one contract, and ``score`` over them all.

>>> from sct import metrics
>>> report = metrics.score(["a dog runs"], [["A dog runs ."]], metrics=["B1", "R"])
>>> {name: round(figure) for name, figure in report.in_paper_units().items()}
{'B1': 100, 'R': 100, 'groups': 1}

A single metric is imported from its file: ``from sct.metrics.cider import cider_d``.
"""

from sct.language.noun_table import NounTable
from sct.metrics.captions import Pairs, pair, pair_words
from sct.metrics.document_frequencies import DocumentFrequencies
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.report import METRICS, TABLE_METRICS, Report, quick_scores, score

__all__ = [
    "METRICS",
    "TABLE_METRICS",
    "DocumentFrequencies",
    "MetricUnavailable",
    "NounTable",
    "Pairs",
    "Report",
    "Score",
    "pair",
    "pair_words",
    "quick_scores",
    "score",
]
