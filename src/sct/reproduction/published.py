"""The tables of the paper: rows, metrics and published figures (``published.json``).

Figures are in the paper's units. Tables of the supplementary material are tableA1 to tableA4, in its order. Where the
paper prints one metric in two units (an IoU of 64.2 as 0.642), the more common unit is used.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal, NamedTuple

from sct.data.statistics import SplitStatistics
from sct.errors import InputError

Data = Literal["coco", "flickr"]
"""COCO Entities or Flickr30k Entities; here, a substitute dataset for them."""
Stage = Literal["cross_entropy", "cider", "cider_and_nw", ""]
"""Last training stage of a row; empty for rows that are not captioners."""
Protocol = Literal["statistics", "sequence", "set", "diversity", "sorting"]

DATA_NAMES: Mapping[Data, str] = {"coco": "COCO Entities", "flickr": "Flickr30k Entities"}
STAGES: tuple[Stage, ...] = ("cross_entropy", "cider", "cider_and_nw")
"""In training order: each starts from a bundle of the previous one."""
STAGE_NAMES: Mapping[Stage, str] = {
    "cross_entropy": "cross-entropy",
    "cider": "+ CIDEr",
    "cider_and_nw": "+ CIDEr and NW",
    "": "",
}
DETERMINISTIC = frozenset({"class_order", "detection_probability"})
"""Sorters whose training has no randomness, so that one run has no spread."""
OURS = "ours"
"""Row of the paper's model, whose variant is ``show_control_tell``."""
SYSTEM_NAMES: Mapping[str, str] = {
    "fc_2k": "FC-2K",
    "up_down": "Up-Down",
    "neural_baby_talk": "Neural Baby Talk",
    "controllable_lstm": "Controllable LSTM",
    "controllable_up_down": "Controllable Up-Down",
    "single_sentinel": "Ours with single sentinel",
    "no_visual_sentinel": "Ours without visual sentinel",
    OURS: "Ours",
    "ours_as_printed": "Ours, as printed",
    "ours_no_end_slot": "Ours without end slot",
    "controllable_lstm_control_only": "Controllable LSTM, control only",
    "controllable_up_down_control_only": "Controllable Up-Down, control only",
    "ag_cvae": "AG-CVAE",
    "pos": "POS",
    "detection_probability": "Detection probability",
    "class_order": "Order by class",
    "svm_rank": "SVM Rank",
    "sinkhorn": "Sinkhorn network",
    "sinkhorn_as_printed": "Sinkhorn network, exp(X) as printed",
}
VERSIONS: Mapping[str, tuple[str, ...]] = {
    OURS: ("ours_no_end_slot", "ours_as_printed"),
    "controllable_lstm": ("controllable_lstm_control_only",),
    "controllable_up_down": ("controllable_up_down_control_only",),
    "sinkhorn": ("sinkhorn_as_printed",),
}
"""Other versions of systems, in rows of their own: recipes of the paper as printed, a pointer that stays on the last
region set, baselines that see nothing where a training chunk has no region instead of the whole image."""


class RowKey(NamedTuple):
    """Identifies a row over all tables."""

    data: Data
    system: str
    """Model variant or sorter kind, "ours" for the paper's model; the split in a table of statistics."""
    stage: Stage

    @property
    def name(self) -> str:
        """Display name of the system."""
        return SYSTEM_NAMES.get(self.system, self.system)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    key: RowKey
    figures: Mapping[str, float]
    """Published figure by metric, for a version that of its system; empty for a row that the paper does not have."""
    is_version: bool = False
    """Whether it is one of ``VERSIONS``, which the paper has no row of."""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows that are compared with each other."""

    title: str
    rows: tuple[Row, ...]

    @property
    def has_stages(self) -> bool:
        """Whether stages differ between rows, so that the table needs a stage column."""
        return len({row.key.stage for row in self.rows}) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table of the paper."""

    name: str
    """Name on the command line, such as table2."""
    title: str
    protocol: Protocol
    metrics: tuple[str, ...]
    headline: tuple[str, ...]
    """Metrics that its claims are about; the first two are plotted."""
    sections: tuple[Section, ...]

    def rows(self) -> Iterator[Row]:
        """All rows, from top to bottom."""
        return (row for section in self.sections for row in section.rows)

    @property
    def data(self) -> tuple[Data, ...]:
        """Datasets of the paper that its rows are about."""
        return tuple(dict.fromkeys(row.key.data for row in self.rows()))

    @property
    def systems(self) -> tuple[str, ...]:
        """Systems of its rows, from top to bottom."""
        return tuple(dict.fromkeys(row.key.system for row in self.rows()))


_CAPTION_METRICS = ("B4", "M", "R", "C", "S")
_DIVERSITY_METRICS = ("Div-1", "Div-2", "mBLEU", "self-CIDEr")
"""The paper does not print these."""
_SORTING_METRICS = ("accuracy", "tau")
_CONTROLLABLE = frozenset(
    version
    for system in ("controllable_lstm", "controllable_up_down", "single_sentinel", "no_visual_sentinel", OURS)
    for version in (system, *VERSIONS.get(system, ()))
)


def _load_tables() -> Iterator[PublishedTable]:
    text = resources.files("sct.reproduction").joinpath("published.json").read_text(encoding="utf-8")
    figures = json.loads(text)

    def rows(protocol: Protocol, data: Data) -> tuple[Row, ...]:
        systems = figures[protocol][data]
        return tuple(
            Row(
                RowKey(data, version, stage), {metric: float(value) for metric, value in row.items()}, version != system
            )
            for system, stages in systems.items()
            for version in ((system,) if protocol == "diversity" else (*VERSIONS.get(system, ()), system))
            for stage, row in stages.items()
        )

    def by_dataset(protocol: Protocol) -> tuple[Section, ...]:
        return tuple(Section(DATA_NAMES[data], rows(protocol, data)) for data in DATA_NAMES)

    yield PublishedTable(
        name="table1",
        title="Statistics",
        protocol="statistics",
        metrics=("captions", "noun chunks", "chunks per caption", "classes", "% associated"),
        headline=(),
        sections=by_dataset("statistics"),
    )
    yield _caption_table("table2", "coco", "sequence", _by_stage(rows("sequence", "coco")))
    yield _caption_table("table3", "flickr", "sequence", _last_stages(rows("sequence", "flickr")))
    yield _caption_table("table4", "coco", "set", _last_stages(rows("set", "coco")))
    yield _caption_table("table5", "flickr", "set", _last_stages(rows("set", "flickr")))
    # Not in the paper: Ours after the stage that AG-CVAE and POS are trained with.
    ours_cross_entropy = Row(RowKey("coco", OURS, "cross_entropy"), {})
    yield PublishedTable(
        name="table7",
        title=f"Diversity: the best of 20 captions by each metric, {DATA_NAMES['coco']}",
        protocol="diversity",
        metrics=(*_CAPTION_METRICS, *_DIVERSITY_METRICS),
        headline=("C", "S", "R", "M"),
        sections=(Section("", (*rows("diversity", "coco"), ours_cross_entropy)),),
    )
    yield PublishedTable(
        name="tableA1",
        title="Sorting region sets",
        protocol="sorting",
        metrics=_SORTING_METRICS,
        headline=_SORTING_METRICS,
        sections=by_dataset("sorting"),
    )
    yield _caption_table("tableA2", "flickr", "sequence", _by_stage(_controllable(rows("sequence", "flickr"))))
    yield _caption_table("tableA3", "coco", "set", _by_stage(_controllable(rows("set", "coco"))))
    yield _caption_table("tableA4", "flickr", "set", _by_stage(_controllable(rows("set", "flickr"))))


def _caption_table(
    name: str, data: Data, control: Literal["sequence", "set"], sections: tuple[Section, ...]
) -> PublishedTable:
    noun_metric = "NW" if control == "sequence" else "IoU"
    return PublishedTable(
        name=name,
        title=f"Control by a {control} of regions, {DATA_NAMES[data]}",
        protocol=control,
        metrics=(*_CAPTION_METRICS, noun_metric),
        headline=("C", noun_metric),
        sections=sections,
    )


def _by_stage(rows: tuple[Row, ...]) -> tuple[Section, ...]:
    return tuple(
        Section(f"Stage: {STAGE_NAMES[stage]}", tuple(row for row in rows if row.key.stage == stage))
        for stage in STAGES
    )


def _last_stages(rows: tuple[Row, ...]) -> tuple[Section, ...]:
    """One section with the last stage of each system."""
    last = {row.key.system: row for row in rows}
    return (Section("", tuple(last.values())),)


def _controllable(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    return tuple(row for row in rows if row.key.system in _CONTROLLABLE)


TABLES: Mapping[str, PublishedTable] = {table.name: table for table in _load_tables()}
_ALIASES: Mapping[str, str] = {"table6": "table7"}
"""The diversity table is the sixth in the paper's LaTeX source."""


def table_1_figures(split: SplitStatistics) -> dict[str, float]:
    """Return the statistics of a split by their names in Table 1.

    The paper does not give the percentage of noun chunks with a region; dropped captions are included in it.
    """
    return {
        "captions": split.num_captions,
        "noun chunks": split.num_noun_chunks,
        "chunks per caption": split.chunks_per_caption,
        "classes": split.num_classes,
        "% associated": 100 * split.associated_share,
    }


def find_table(name: str) -> PublishedTable:
    """Return the table of this name, ignoring case; table6 is table7.

    >>> find_table("tablea1").title
    'Sorting region sets'
    """
    expected = _ALIASES.get(name.lower(), name.lower())
    found = next((table for known, table in TABLES.items() if known.lower() == expected), None)
    if found is None:
        raise InputError(f"got table {name!r}, expected one of {', '.join(TABLES)}")
    return found
