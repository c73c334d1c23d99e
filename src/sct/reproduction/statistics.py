"""Table 1: statistics of dataset folders next to the paper's, and the reasons of their differences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sct.data.statistics import SplitStatistics, compute_statistics
from sct.errors import InputError
from sct.regions.records import NO_CLASS
from sct.reproduction.plan import Log
from sct.reproduction.published import DATA_NAMES, Data, PublishedTable, table_1_figures
from sct.reproduction.results import NOT_RUN, Results, RowResult, RunResult
from sct.reproduction.runs import SubstituteDataset


class SourceSplit(NamedTuple):
    """Size of a split before captions are dropped."""

    images: int
    captions: int


KARPATHY_SPLITS: Mapping[Data, Mapping[str, SourceSplit]] = {
    "coco": {
        "train": SourceSplit(113_287, 566_747),
        "val": SourceSplit(5_000, 25_010),
        "test": SourceSplit(5_000, 25_010),
    },
    "flickr": {
        "train": SourceSplit(29_000, 145_000),
        "val": SourceSplit(1_014, 5_070),
        "test": SourceSplit(1_000, 5_000),
    },
}
"""The splits that the paper's statistics are of; COCO's train includes restval."""


class Table1(NamedTuple):
    """Figures of Table 1, and why they differ from the paper's."""

    results: Results
    differences: tuple[str, ...]


def make_table_1(
    table: PublishedTable, datasets: Sequence[SubstituteDataset], metrics: Sequence[str], log: Log
) -> Table1:
    """Count in datasets, at most one for each of the paper's."""
    data_of_kind: dict[Data, SubstituteDataset] = {}
    for data in datasets:
        if other := data_of_kind.get(data.kind):
            raise InputError(
                f"{other.folder} and {data.folder} both substitute for {DATA_NAMES[data.kind]}: give one of them"
            )
        data_of_kind[data.kind] = data
    statistics: dict[Data, Mapping[str, SplitStatistics]] = {}
    for kind, data in data_of_kind.items():
        log(f"counting in {data.folder}")
        statistics[kind] = compute_statistics(data.dataset.table)
    results, differences = {}, []
    for row in table.rows():
        split = statistics.get(row.key.data, {}).get(row.key.system)
        if split is None:
            run = RunResult(name=DATA_NAMES[row.key.data], missing_reason=NOT_RUN)
        else:
            data, figures = data_of_kind[row.key.data], table_1_figures(split)
            name = data.folder.name
            run = RunResult(name=name, data=name, figures={metric: figures[metric] for metric in metrics})
            where = f"{name}, {row.key.system}"
            differences += [f"{where}: {line}" for line in explain(data, row.key.system, split, row.figures)]
        results[row.key] = RowResult(row.key, (run,))
    return Table1(results, tuple(differences))


def explain(
    data: SubstituteDataset, split: str, counted: SplitStatistics, published: Mapping[str, float]
) -> Iterator[str]:
    """Explain captions, noun chunks and classes of a split, a line each."""
    source = KARPATHY_SPLITS[data.kind][split]
    dropped = _share(counted.num_source_captions - counted.num_captions, counted.num_source_captions)
    published_dropped = _share(source.captions - int(published["captions"]), source.captions)
    per_caption = published["noun chunks"] / published["captions"]
    yield (
        f"captions {_change(counted.num_captions, published['captions'])}: "
        f"{counted.num_images:,} images (paper: {source.images:,}), "
        f"dropped {dropped} (paper: {published_dropped}){_drop_reasons(data, counted)}"
    )
    yield (
        f"noun chunks {_change(counted.num_noun_chunks, published['noun chunks'])}: "
        f"{counted.chunks_per_caption:.3f} per caption (paper: {per_caption:.3f}), {_chunk_source(data)}"
    )
    yield f"classes {_change(counted.num_classes, published['classes'])}: {_class_source(data)}"


def _change(here: float, published: float) -> str:
    return f"{100 * (here / published - 1):+.1f} %"


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} = {100 * part / whole if whole else 0:.2f} %"


def _drop_reasons(data: SubstituteDataset, counted: SplitStatistics) -> str:
    is_flickr30k = data.dataset.manifest.source == "Flickr30k Entities"
    no_chunk = "no phrase with a box" if is_flickr30k else "no noun chunk, or no region in the image"
    count_of_reason = {
        no_chunk: counted.num_without_chunk,
        "a noun chunk without a region": counted.num_unassociated,
    }
    reasons = [f"{count:,} with {reason}" for reason, count in count_of_reason.items() if count]
    return f": {', '.join(reasons)}" if reasons else ""


def _chunk_source(data: SubstituteDataset) -> str:
    if data.dataset.table.columns["auto_grounded"].any():
        return f"found by {data.dataset.manifest.settings.get('parser', 'a parser')}"
    return "phrases with a box, as in the paper" if data.kind == "flickr" else "found by the authors"


def _class_source(data: SubstituteDataset) -> str:
    columns = data.dataset.table.columns
    num_classes = int((np.unique(columns["region_class"]) != NO_CLASS).sum())
    if not num_classes:
        return "regions of this dataset have no classes"
    if data.kind == "flickr" and np.isnan(columns["region_score"]).all():
        return "head nouns of phrases; the paper's are classes of the detections that overlap the boxes most, of 1,600"
    if "detections_of_encoder" in data.dataset.manifest.settings:
        return "classes of human boxes, and nouns that the vision encoder names; the paper's detector has 1,600 classes"
    return f"regions of this dataset have {num_classes:,} classes, those of the paper's detector 1,600"
