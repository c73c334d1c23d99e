"""The tables of the paper, with its figures: what ours are put beside.

Figures stand in the paper's units. The tables of the supplementary material have the names tableA1 to tableA4, in its
order. Where a table prints one figure two ways (an IoU of 64.2 as 0.642), the unit is that of the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sct.data.published import TABLE_1
from sct.errors import InputError

Data = Literal["coco", "flickr"]
"""COCO Entities or Flickr30k Entities, and here what stands in for them."""
Stage = Literal["words", "cider", "nouns", ""]
"""What a row was trained with; nothing where that does not apply."""
Protocol = Literal["statistics", "sequence", "set", "diversity", "sorting"]

DATA_NAMES: Mapping[Data, str] = {"coco": "COCO Entities", "flickr": "Flickr30k Entities"}
STAGES: tuple[Stage, ...] = ("words", "cider", "nouns")
"""Each starts from what the one before it made."""
STAGE_NAMES: Mapping[Stage, str] = {"words": "words", "cider": "+ CIDEr", "nouns": "+ CIDEr and nouns", "": ""}
SYSTEM_NAMES: Mapping[str, str] = {
    "fc_2k": "FC-2K",
    "up_down": "Up-Down",
    "neural_baby_talk": "Neural Baby Talk",
    "controllable_lstm": "Controllable LSTM",
    "controllable_up_down": "Controllable Up-Down",
    "single_sentinel": "Ours with single sentinel",
    "no_visual_sentinel": "Ours without visual sentinel",
    "ours": "Ours",
    "ag_cvae": "AG-CVAE",
    "pos": "POS",
    "probability": "Detection probability",
    "class_order": "Order by class",
    "svm_rank": "SVM Rank",
    "sinkhorn": "Sinkhorn network",
}


class RowKey(NamedTuple):
    """What a row is about."""

    data: Data
    system: str
    """By its name in recipes; the split in a table of statistics."""
    stage: Stage

    @property
    def name(self) -> str:
        """The row's name for people."""
        return SYSTEM_NAMES.get(self.system, self.system)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table, with the figures that the paper prints; none where it has no such row."""

    key: RowKey
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Section:
    """Rows that are compared with each other."""

    title: str
    rows: tuple[Row, ...]

    @property
    def has_stages(self) -> bool:
        """Whether its rows were trained with different stages, so that each has to say its own."""
        return len({row.key.stage for row in self.rows}) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table of the paper."""

    name: str
    """As ``sct reproduce`` calls it."""
    title: str
    protocol: Protocol
    metrics: tuple[str, ...]
    headline: tuple[str, ...]
    """The metrics that its claims are about; the first two are drawn."""
    sections: tuple[Section, ...]

    def rows(self) -> Iterator[Row]:
        """All rows, from top to bottom."""
        return (row for section in self.sections for row in section.rows)

    @property
    def data(self) -> tuple[Data, ...]:
        """Which of the paper's datasets its rows are about."""
        return tuple(dict.fromkeys(row.key.data for row in self.rows()))


_SEQUENCE = ("B4", "M", "R", "C", "S", "NW")
_SET = ("B4", "M", "R", "C", "S", "IoU")
_ORACLE = ("B4", "M", "R", "C", "S")
_DIVERSITY = ("Div-1", "Div-2", "mBLEU", "self-CIDEr")
"""How different the captions are; the paper does not print these."""
_SORTING = ("accuracy", "tau")
_CONTROLLABLE = ("controllable_lstm", "controllable_up_down", "single_sentinel", "no_visual_sentinel", "ours")

# B-4, METEOR, ROUGE-L, CIDEr, SPICE, NW (tables 2, 3, A2) or IoU (tables 4, 5, A3, A4).
_SEQUENCE_COCO = """
fc_2k                words  10.4 17.3 36.8  98.3 25.2 0.257
fc_2k                cider  12.3 18.5 39.6 117.5 26.9 0.273
up_down              words  12.9 19.3 40.0 119.9 29.3 0.296
up_down              cider  14.2 20.0 42.1 133.9 30.0 0.310
neural_baby_talk     words  12.9 19.2 40.4 120.2 29.5 0.305
controllable_lstm    words  11.4 18.1 38.5 106.8 27.6 0.275
controllable_lstm    cider  12.8 18.9 40.9 123.0 28.5 0.290
controllable_lstm    nouns  12.9 19.3 41.3 124.0 28.9 0.341
controllable_up_down words  17.3 23.0 46.7 161.0 39.1 0.396
controllable_up_down cider  17.4 22.9 47.1 168.5 39.0 0.397
controllable_up_down nouns  17.9 23.6 48.2 171.3 40.7 0.443
single_sentinel      words  20.0 23.9 51.1 183.3 43.9 0.480
single_sentinel      cider  21.7 25.3 54.5 202.6 47.6 0.606
single_sentinel      nouns  21.3 25.3 54.5 201.1 48.1 0.648
no_visual_sentinel   words  20.8 24.4 52.4 191.2 45.1 0.508
no_visual_sentinel   cider  22.2 25.4 55.0 206.2 47.6 0.607
no_visual_sentinel   nouns  21.5 25.1 54.7 202.2 48.1 0.639
ours                 words  20.9 24.4 52.5 193.0 45.3 0.508
ours                 cider  22.5 25.6 55.1 210.1 48.1 0.615
ours                 nouns  22.3 25.6 55.3 209.7 48.5 0.649
"""
_SEQUENCE_FLICKR = """
neural_baby_talk     words   8.5 13.5 31.7  53.9 17.9 0.090
controllable_lstm    words   6.5 12.0 29.6  40.4 15.7 0.078
controllable_lstm    cider   6.7 12.1 30.0  45.5 15.8 0.079
controllable_lstm    nouns   6.5 12.6 30.2  43.5 15.8 0.124
controllable_up_down words  10.1 15.2 34.9  69.2 21.6 0.158
controllable_up_down cider  10.1 14.8 35.0  69.3 21.2 0.148
controllable_up_down nouns  10.4 15.2 35.2  69.5 21.7 0.190
single_sentinel      words  11.0 15.5 36.3  71.7 22.6 0.134
single_sentinel      cider  11.2 15.8 37.9  77.9 22.9 0.199
single_sentinel      nouns  10.7 16.1 38.1  76.5 22.8 0.260
no_visual_sentinel   words  10.8 14.9 35.4  69.3 22.2 0.142
no_visual_sentinel   cider  11.1 15.5 36.8  75.0 22.2 0.197
no_visual_sentinel   nouns  11.1 15.5 37.2  74.7 22.4 0.244
ours                 words  11.3 15.4 36.9  74.5 23.4 0.152
ours                 cider  12.4 16.6 38.8  83.7 23.5 0.221
ours                 nouns  12.5 16.8 38.9  84.0 23.5 0.263
"""
_SET_COCO = """
fc_2k                cider  12.5 18.5 39.6 116.5 26.6 61.0
up_down              cider  14.4 20.0 42.2 132.8 29.7 63.2
neural_baby_talk     words  13.1 19.2 40.5 119.1 29.2 62.6
controllable_lstm    words  11.5 18.1 38.5 105.8 27.1 60.7
controllable_lstm    cider  12.9 18.9 40.9 122.0 28.2 62.0
controllable_lstm    nouns  12.9 19.3 41.3 123.4 28.7 64.2
controllable_up_down words  17.5 23.0 46.9 160.6 38.8 69.2
controllable_up_down cider  17.7 22.9 47.3 167.6 38.7 69.4
controllable_up_down nouns  18.1 23.6 48.4 170.5 40.4 71.6
single_sentinel      words  16.9 22.6 46.9 159.6 40.9 70.2
single_sentinel      cider  17.9 23.7 48.7 171.1 43.5 74.4
single_sentinel      nouns  17.4 23.6 48.4 168.4 43.7 75.4
no_visual_sentinel   words  17.7 23.1 47.9 166.6 42.1 71.3
no_visual_sentinel   cider  18.1 23.7 48.9 172.5 43.3 74.2
no_visual_sentinel   nouns  17.6 23.4 48.5 168.9 43.6 75.3
ours                 words  17.7 23.2 48.0 168.3 42.1 71.4
ours                 cider  18.5 23.9 49.0 176.7 43.8 74.5
ours                 nouns  18.0 23.8 48.9 173.3 44.1 75.5
"""
_SET_FLICKR = """
neural_baby_talk     words   8.6 13.5 31.9  53.8 17.8 49.9
controllable_lstm    words   6.7 12.0 29.8  41.0 15.6 48.8
controllable_lstm    cider   6.8 12.1 30.2  45.4 15.6 49.0
controllable_lstm    nouns   6.4 12.5 30.2  42.9 15.6 50.8
controllable_up_down words  10.1 15.2 35.1  68.8 21.5 53.6
controllable_up_down cider  10.2 14.8 35.3  69.1 21.1 52.9
controllable_up_down nouns  10.5 15.2 35.5  69.5 21.6 54.8
single_sentinel      words  10.1 15.2 35.5  67.5 21.7 52.5
single_sentinel      cider  10.1 15.3 36.1  68.9 21.7 53.5
single_sentinel      nouns   9.5 15.2 35.8  65.6 21.2 55.0
no_visual_sentinel   words   9.7 14.5 34.4  63.1 21.0 52.2
no_visual_sentinel   cider   9.9 14.7 34.8  65.5 20.8 52.9
no_visual_sentinel   nouns   9.8 14.8 35.0  64.2 20.9 54.3
ours                 words   9.9 14.9 35.3  67.3 22.2 52.7
ours                 cider  10.8 15.7 36.4  71.3 22.0 53.9
ours                 nouns  10.9 15.8 36.2  70.4 21.8 55.0
"""
_ORACLE_COCO = """
ag_cvae              words  47.1 30.9 63.8 130.8 24.4
pos                  words  44.9 36.5 67.8 146.8 27.7
ours                 nouns  44.8 36.6 68.9 156.5 30.9
"""
_SORTING_COCO = """
probability  -  36.2 0.145
class_order  -  59.1 0.525
svm_rank     -  54.6 0.448
sinkhorn     -  67.1 0.613
"""
_SORTING_FLICKR = """
probability  -  40.0 0.249
class_order  -  58.4 0.565
svm_rank     -  49.5 0.418
sinkhorn     -  65.2 0.633
"""


def _rows(text: str, data: Data, metrics: tuple[str, ...]) -> tuple[Row, ...]:
    stages: Mapping[str, Stage] = {"words": "words", "cider": "cider", "nouns": "nouns", "-": ""}
    rows = []
    for line in text.split("\n")[1:-1]:
        system, stage, *figures = line.split()
        numbers = dict(zip(metrics, map(float, figures), strict=True))
        rows.append(Row(RowKey(data, system, stages[stage]), numbers))
    return tuple(rows)


def _by_stage(rows: tuple[Row, ...]) -> tuple[Section, ...]:
    """One section for each stage: cross-entropy, CIDEr, CIDEr and NW."""
    return tuple(
        Section(f"Stage: {STAGE_NAMES[stage]}", tuple(row for row in rows if row.key.stage == stage))
        for stage in STAGES
    )


def _last_stages(rows: tuple[Row, ...]) -> tuple[Section, ...]:
    """Each system as far as it was trained."""
    last = {row.key.system: row for row in rows}
    return (Section("", tuple(last.values())),)


def _controllable(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    return tuple(row for row in rows if row.key.system in _CONTROLLABLE)


def _statistics(data: Data) -> Section:
    columns = ("captions", "noun chunks", "chunks per caption", "classes")
    published = TABLE_1[DATA_NAMES[data]]
    rows = [
        Row(RowKey(data, split, ""), dict(zip(columns, map(float, column), strict=True)))
        for split, column in published.items()
    ]
    return Section(DATA_NAMES[data], tuple(rows))


def _captions(
    name: str, data: Data, control: Literal["sequence", "set"], sections: tuple[Section, ...]
) -> PublishedTable:
    return PublishedTable(
        name=name,
        title=f"Control by a {control} of regions, {DATA_NAMES[data]}",
        protocol=control,
        metrics=_SEQUENCE if control == "sequence" else _SET,
        headline=("C", "NW") if control == "sequence" else ("C", "IoU"),
        sections=sections,
    )


def _tables() -> Iterator[PublishedTable]:
    sequence: dict[Data, tuple[Row, ...]] = {
        "coco": _rows(_SEQUENCE_COCO, "coco", _SEQUENCE),
        "flickr": _rows(_SEQUENCE_FLICKR, "flickr", _SEQUENCE),
    }
    of_set: dict[Data, tuple[Row, ...]] = {
        "coco": _rows(_SET_COCO, "coco", _SET),
        "flickr": _rows(_SET_FLICKR, "flickr", _SET),
    }
    yield PublishedTable(
        name="table1",
        title="Statistics",
        protocol="statistics",
        metrics=("captions", "noun chunks", "chunks per caption", "classes"),
        headline=(),
        sections=(_statistics("coco"), _statistics("flickr")),
    )

    yield _captions("table2", "coco", "sequence", _by_stage(sequence["coco"]))
    yield _captions("table3", "flickr", "sequence", _last_stages(sequence["flickr"]))
    yield _captions("table4", "coco", "set", _last_stages(of_set["coco"]))
    yield _captions("table5", "flickr", "set", _last_stages(of_set["flickr"]))
    # Ours after the words stage learned from what its rivals here learned from; the paper does not print it.
    words_alone = Row(RowKey("coco", "ours", "words"), {})
    yield PublishedTable(
        name="table7",
        title=f"Diversity: the best of 20 captions by each metric, {DATA_NAMES['coco']}",
        protocol="diversity",
        metrics=(*_ORACLE, *_DIVERSITY),
        headline=("C", "S", "R", "M"),
        sections=(Section("", (*_rows(_ORACLE_COCO, "coco", _ORACLE), words_alone)),),
    )
    yield PublishedTable(
        name="tableA1",
        title="Sorting region sets",
        protocol="sorting",
        metrics=_SORTING,
        headline=_SORTING,
        sections=(
            Section(DATA_NAMES["coco"], _rows(_SORTING_COCO, "coco", _SORTING)),
            Section(DATA_NAMES["flickr"], _rows(_SORTING_FLICKR, "flickr", _SORTING)),
        ),
    )
    yield _captions("tableA2", "flickr", "sequence", _by_stage(_controllable(sequence["flickr"])))
    yield _captions("tableA3", "coco", "set", _by_stage(_controllable(of_set["coco"])))
    yield _captions("tableA4", "flickr", "set", _by_stage(_controllable(of_set["flickr"])))


TABLES: Mapping[str, PublishedTable] = {table.name: table for table in _tables()}
_OTHER_NAMES: Mapping[str, str] = {"table6": "table7"}
"""The table of diversity is the sixth of the paper's LaTeX."""


def table_named(name: str) -> PublishedTable:
    """The table of a name, in capitals or not; table6 is table7.

    >>> table_named("tablea1").title
    'Sorting region sets'
    """
    expected = _OTHER_NAMES.get(name.lower(), name.lower())
    found = next((table for known, table in TABLES.items() if known.lower() == expected), None)
    if found is None:
        raise InputError(f"table {name!r} is not known: expected one of {', '.join(TABLES)}")
    return found
