"""The dataset at hand, in the place of one of the paper's; it is looked at before anything is trained."""

from dataclasses import dataclass
from pathlib import Path

from sct.data.dataset import TABLE, Dataset
from sct.errors import InputError
from sct.reproduction.published import DATA_NAMES, Data, PublishedTable
from sct.storage.artifacts import sha256_file

_USUAL_SPLIT = "val"
"""Neither dataset here has a ``test``, and sorters are scored on this one alone."""


@dataclass(frozen=True, slots=True, eq=False)
class SubstituteDataset:
    """A dataset and which of the paper's it stands in for."""

    folder: Path
    dataset: Dataset
    digest: str
    """Checksum of its captions and regions, by which runs and captions that were made of it know it again."""

    @classmethod
    def open(cls, folder: Path) -> "SubstituteDataset":
        """Read a folder that ``sct prepare`` made."""
        return cls(folder, Dataset.open(folder), sha256_file(folder / TABLE))

    @property
    def kind(self) -> Data:
        """COCO's, or the one with boxes that people drew."""
        return "coco" if "coco" in self.dataset.manifest.source.lower() else "flickr"

    def refuse_other_tables(self, table: PublishedTable) -> None:
        """Refuse a table about the other one: its runs would be taken for those of the right dataset ever after."""
        if self.kind not in table.data:
            expected = " or ".join(DATA_NAMES[data] for data in table.data)
            raise InputError(
                f"{self.folder} was made of {self.dataset.manifest.source}, which stands in for "
                f"{DATA_NAMES[self.kind]}, and {table.name} is about {expected}: name another dataset with --data, or "
                "another table"
            )

    def split_for(self, table: PublishedTable, given: str) -> str:
        """The split that a table is measured on, of which none may be given; a table of statistics has no one split."""
        if table.protocol == "statistics":
            if given:
                raise InputError(f"the split {given!r} was given, but {table.name} counts all: leave --split out")
            return ""
        split, known = given or _USUAL_SPLIT, self.dataset.table.splits
        if table.protocol == "sorting":
            if split != _USUAL_SPLIT:
                raise InputError(f"the split is {split!r}, but sorters are scored on {_USUAL_SPLIT}: leave --split out")
        elif split not in known:
            raise InputError(f"{self.folder} has no split {split!r}: expected one of {', '.join(known)}, --split NAME")
        return split
