"""Valid files of every format that sct reads, each with the code that reads and uses it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from sct.errors import InputError
from tests.fuzz.mutations import mutate_file

Mutate = Callable[[Random, bytes], bytes]


@dataclass(frozen=True)
class Target:
    """A format: the files of a valid folder, and a function that reads that folder."""

    name: str
    files: Mapping[str, bytes]
    read: Callable[[Path], object]
    mutators: Mapping[str, Mutate] = field(default_factory=dict)
    """Mutations by suffix or file name, besides those of bytes; default: by suffix (``mutate_file``)."""
    stable: frozenset[str] = frozenset()
    """Files that stay as they are."""
    errors: tuple[type[Exception], ...] = (InputError,)
    """What reading damaged files may raise."""
    num_examples: float = 1.0
    """Share of the usual number of examples, less for slow readers."""
    is_slow: bool = False
    """Whether only a long run includes it."""

    def mutate(self, random: Random, name: str) -> bytes:
        """Damage one of the files."""
        mutator = self.mutators.get(name) or self.mutators.get(Path(name).suffix)
        if mutator is None or random.random() < 0.3:
            return mutate_file(random, name, self.files[name])
        return mutator(random, self.files[name])


def read_folder(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
