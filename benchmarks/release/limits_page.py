"""Write docs/limits.md from ``sct.limits``.

python benchmarks/release/limits_page.py docs/limits.md
"""

import argparse
import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from sct import limits

PREAMBLE = """\
# Limits

Larger input is refused with one line that names it, exit status 2 (HTTP: 4xx), before memory is taken for it. The
limits are far above what the field uses. They are constants of `src/sct/limits.py`, from which
`benchmarks/release/limits_page.py` writes this page; time-outs and connection limits of the server are options
([http](http.md)).

| limit | value | of what |
| --- | --- | --- |
"""
_UNITS = (("GiB", 30), ("MiB", 20), ("KiB", 10))


class Limit(NamedTuple):
    """One constant of ``sct.limits``."""

    name: str
    value: float
    description: str

    def row(self) -> str:
        """Row of the table."""
        return f"| `{self.name}` | {format_limit(self.name, self.value)} | {self.description} |"


def read_limits() -> Iterator[Limit]:
    """All limits with their docstrings, in the order of the file."""
    body = ast.parse(Path(limits.__file__).read_text(encoding="utf-8")).body
    for statement, following in pairwise(body):
        match statement, following:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(text))):
                yield Limit(name, getattr(limits, name), " ".join(text.replace("``", "`").split()).removesuffix("."))


def format_limit(name: str, value: float) -> str:
    """Format a value, bytes in binary units.

    >>> format_limit("MAX_LINE_BYTES", 16 << 20), format_limit("MAX_SAMPLES", 1000)
    ('16 MiB', '1,000')
    """
    if name.endswith("_BYTES"):
        for unit, bits in _UNITS:
            if value >= 1 << bits:
                return f"{int(value) >> bits:,} {unit}"
    return f"{value:,}"


def render() -> str:
    """Content of docs/limits.md."""
    return PREAMBLE + "".join(f"{limit.row()}\n" for limit in read_limits())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.parse_args().out.write_text(render(), encoding="utf-8")
