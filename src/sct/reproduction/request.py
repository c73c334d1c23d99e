"""What is to be made again, and how."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from sct.errors import InputError
from sct.reproduction.published import RowKey
from sct.reproduction.runs import Workplace

Say = Callable[[str], None]
"""Is told what is being done, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All that ``sct reproduce`` is asked for, apart from the table."""

    place: Workplace
    split: str = ""
    """What is captioned; empty: val, or for statistics all of the dataset."""
    seeds: int = 3
    """How often the systems of ``plan.REPEATED`` are trained."""
    metrics: tuple[str, ...] = ()
    """Those of the table that are expected; none: all."""
    train: bool = True
    """Whether runs that are missing are trained."""
    systems: tuple[str, ...] = ()
    """Those that are trained; none: all. Finished runs of the others are taken too."""
    jobs: int = 1
    """How many are trained at once."""
    device: str = "cpu"
    """What captions are said on."""

    def __post_init__(self) -> None:
        """Refuse no runs at all, and a device that is not there."""
        for name in ("seeds", "jobs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: expected at least 1")
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise InputError(f"the device is {self.device!r}, and there is no GPU here: expected --device cpu or auto")

    def trains(self, key: RowKey) -> bool:
        """Whether the runs of a row are trained if they are missing."""
        return self.train and (not self.systems or key.system in self.systems)
