"""Captions judged over HTTP, by the metrics that need no Java."""

from typing import Any

from sct.metrics.report import score, unit
from sct.studio.server.messages import ScoreMessage


def scores_of(message: ScoreMessage) -> dict[str, Any]:
    """Figures in the units of the paper's tables, for all captions and for each."""
    report = score(
        [line.prediction for line in message.predictions],
        [line.references for line in message.predictions],
        message.metrics,
    )
    figures = report.in_paper_units()
    groups = figures.pop("groups")
    columns = {name: (values * unit(name)).tolist() for name, values in report.per_caption.items()}
    return {
        "scores": figures,
        "groups": groups,
        "unavailable": dict(report.unavailable),
        "per_caption": [
            {name: columns[name][row] if name in columns else None for name in figures}
            for row in range(len(message.predictions))
        ],
        "vectors": report.vectors,
    }
