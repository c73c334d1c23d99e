"""Files of JSON that are kept beside a run."""

from pathlib import Path
from typing import Any

from sct.data.readers.json_checks import load_json, mapping_of


def read_kept(path: Path) -> dict[str, Any]:
    """What such a file says; nothing where there is none.

    >>> read_kept(Path("no_run/reproduction.json"))
    {}
    """
    return mapping_of(load_json(path), f"{path}: what it holds") if path.is_file() else {}
