"""Caption metrics: one file per metric, one interface, and ``score`` to run several of them.

>>> from sct import metrics
>>> report = metrics.score(["a dog runs"], [["A dog runs ."]], metrics=["B1", "R"])
>>> {name: round(value) for name, value in report.in_paper_units().items()}
{'B1': 100, 'R': 100, 'groups': 1}

Import a single metric from its module: ``from sct.metrics.cider import cider_d``.
"""

from sct.metrics.captions import Pairs, pair, pair_words
from sct.metrics.document_frequencies import DocumentFrequencies, PartialDocumentFrequencies
from sct.metrics.interface import MetricUnavailable, Score
from sct.metrics.report import METRICS, TABLE_METRICS, Report, score

__all__ = [
    "METRICS",
    "TABLE_METRICS",
    "DocumentFrequencies",
    "MetricUnavailable",
    "Pairs",
    "PartialDocumentFrequencies",
    "Report",
    "Score",
    "pair",
    "pair_words",
    "score",
]
