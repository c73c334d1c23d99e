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
    """Explain captions, noun chunks and classes of a split, a line each; the paper's counts are in parentheses."""
    source = KARPATHY_SPLITS[data.kind][split]
    dropped, reasons = counted.num_source_captions - counted.num_captions, []
    if counted.num_without_chunk:
        is_flickr30k = data.dataset.manifest.source == "Flickr30k Entities"
        reason = "no phrase with a box" if is_flickr30k else "no noun chunk, or an image without regions"
        reasons.append(f"{counted.num_without_chunk:,} with {reason}")
    if counted.num_unassociated:
        reasons.append(f"{counted.num_unassociated:,} with a noun chunk without a region")
    yield (
        f"captions: {counted.num_images:,} images ({source.images:,} in Karpathy's split); dropped "
        f"{_share(dropped, counted.num_source_captions)} "
        f"({_share(source.captions - int(published['captions']), source.captions)})"
        + (f": {', '.join(reasons)}" if reasons else "")
    )
    yield (
        f"noun chunks: {counted.chunks_per_caption:.3f} per caption "
        f"({published['noun chunks'] / published['captions']:.3f}), {_chunk_source(data)}"
    )
    yield f"classes: {_class_source(data)}; the paper's are those of 1,600 that its detector found in the regions"


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}, {part / whole if whole else 0:.2%}"


def _chunk_source(data: SubstituteDataset) -> str:
    manifest = data.dataset.manifest
    if data.kind == "flickr":
        return "phrases with a box, as in the paper"
    return f"by {manifest.settings['parser']}" if "parser" in manifest.settings else "by the authors' parser"


def _class_source(data: SubstituteDataset) -> str:
    table = data.dataset.table
    num_available = int((np.unique(table.columns["region_class"]) != NO_CLASS).sum())
    if data.kind == "flickr" and np.isnan(table.columns["region_score"]).all():
        return f"head nouns of the phrases, {num_available:,} in all splits, because human boxes have no class"
    return f"{num_available:,} are the classes of the regions of all splits"
