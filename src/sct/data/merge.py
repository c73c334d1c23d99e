"""Merge dataset folders into one: one vocabulary, one noun table, the images of all of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sct.data.dataset import NEW_TABLE, TABLE, Dataset, Manifest, finish_dataset
from sct.data.join import counted_splits
from sct.data.table_join import join_table_files
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.regions.image_source import ImageSource


def merge_datasets(folders: Sequence[Path], out: Path) -> Manifest:
    """Write the images of several dataset folders, in their order, as one dataset; images are not copied.

    Image ids and files must differ between datasets, and no dataset may have images that another one uses the names of.
    Where they disagree whether a word is a noun, or on its part of speech, the one that uses it most decides. The table
    of one dataset at a time is in memory.
    """
    if len(folders) < 2:
        raise InputError(f"got {len(folders)} datasets, expected at least 2 to merge")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists: expected a new or empty folder for the merged dataset")
    datasets = [_open_strings(folder) for folder in folders]
    _check_datasets(folders, datasets)
    manifests, nouns = [dataset.manifest for dataset in datasets], _merge_nouns(datasets)
    skipped: Counter[str] = Counter()
    for manifest in manifests:
        skipped.update(manifest.skipped)
    manifest = Manifest(
        source=" + ".join(dict.fromkeys(manifest.source for manifest in manifests)),
        mode=manifests[0].mode,
        settings={"merged": [{"source": each.source, "settings": each.settings} for each in manifests]},
        images=list(dict.fromkeys(path for each in manifests for path in each.images)),
        num_images=sum(manifest.num_images for manifest in manifests),
        num_captions=sum(manifest.num_captions for manifest in manifests),
        skipped=dict(skipped),
    )
    out.mkdir(parents=True, exist_ok=True)
    files, joined = [folder / TABLE for folder in folders], out / NEW_TABLE
    _, vocabulary = join_table_files(files, joined, counted_splits=counted_splits(manifest.mode))
    finish_dataset(out, joined, vocabulary, manifest, nouns, _merge_tags(datasets, vocabulary))
    return manifest


def _open_strings(folder: Path) -> Dataset:
    """Open a dataset and keep everything but the columns of its table, which may be large."""
    dataset = Dataset.open(folder)
    return replace(dataset, table=replace(dataset.table, columns={}))


def _check_datasets(folders: Sequence[Path], datasets: Sequence[Dataset]) -> None:
    if len(modes := {dataset.manifest.mode for dataset in datasets}) > 1:
        raise InputError(f"got datasets of modes {' and '.join(sorted(modes))}, expected one: prepare them in one mode")
    _find_owners("image", folders, [dataset.table.image_ids for dataset in datasets])
    owner_of_file = _find_owners("image file", folders, [dataset.table.image_files for dataset in datasets])
    _check_image_names(folders, datasets, owner_of_file)


def _find_owners(kind: str, folders: Sequence[Path], names: Sequence[Sequence[str]]) -> dict[str, int]:
    """Index of the dataset of each name; raises for a name of two datasets."""
    owners: dict[str, int] = {}
    for index, own_names in enumerate(names):
        for name in own_names:
            if name and (owner := owners.setdefault(name, index)) != index:
                raise InputError(
                    f"{kind} {name!r} is in {folders[owner]} and {folders[index]}: expected it in one dataset"
                )
    return owners


def _check_image_names(folders: Sequence[Path], datasets: Sequence[Dataset], owner_of_file: Mapping[str, int]) -> None:
    """Raise if a file of a dataset would be read from the images of another one, which may have unused ones."""
    user_of_path: dict[str, int] = {}
    for index, dataset in enumerate(datasets):
        for path in dataset.manifest.images:
            user_of_path.setdefault(path, index)
    images = [frozenset(dataset.manifest.images) for dataset in datasets]
    for path, user in user_of_path.items():
        if Path(path).exists():
            for name in ImageSource.open(Path(path)).names:
                owner = owner_of_file.get(name)
                if owner is not None and path not in images[owner]:
                    raise InputError(
                        f"image file {name!r} of {folders[owner]} is among the images of {folders[user]} too: expected "
                        "file names of one dataset"
                    )


def _merge_nouns(datasets: Sequence[Dataset]) -> NounTable | None:
    tables = [dataset.nouns for dataset in datasets]
    if any(table is None for table in tables):
        return None
    if len(names := {table.vectors_name for table in tables if table}) > 1:
        raise InputError(f"got datasets with the word vectors {' and '.join(sorted(names))}, expected the same")
    units = {noun: unit for table in tables if table for noun, unit in zip(table.nouns, table.units, strict=True)}
    users = _main_users(datasets)
    # A noun that is not in a vocabulary can only come from its own table.
    nouns = sorted(noun for noun in units if noun not in users or noun in (datasets[users[noun]].nouns or ()))
    matrix = np.array([units[noun] for noun in nouns], np.float32).reshape(len(nouns), -1)
    return NounTable(tuple(nouns), matrix, next(iter(names)))


def _merge_tags(datasets: Sequence[Dataset], vocabulary: Vocabulary) -> str | None:
    if any(dataset.tags is None for dataset in datasets):
        return None
    users = _main_users(datasets)

    def tag(word: str) -> str:
        dataset = datasets[users[word]]
        return (dataset.tags or "")[dataset.vocabulary.ids[word]]

    return "".join(map(tag, vocabulary.words))


def _main_users(datasets: Sequence[Dataset]) -> dict[str, int]:
    """Index of the dataset that uses each word most; the first of those that use it equally often."""
    counts: dict[str, int] = {}
    users: dict[str, int] = {}
    for index, dataset in enumerate(datasets):
        for word, count in zip(dataset.vocabulary.words, dataset.vocabulary.counts, strict=True):
            if count > counts.get(word, -1):
                counts[word], users[word] = count, index
    return users
