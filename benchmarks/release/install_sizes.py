"""Size of an installation and of each extra on top of it: the files of all distributions that pip would install.

    python benchmarks/release/install_sizes.py        # in an environment with all extras, without CUDA

Sizes are those of the files in each distribution's RECORD, compiled Python files included.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "show-control-and-tell"
EXTRAS = ("prepare", "train", "serve", "hub", "onnx", "supervision")
BUNDLE_MB = 57
"""Of the project's own files, which an editable installation does not list."""


def closure(name: str, extras: frozenset[str], found: set[str]) -> set[str]:
    """Names of the distributions that a distribution with extras needs, itself included."""
    key = canonicalize_name(name)
    try:
        requirements = distribution(key).requires or []
    except PackageNotFoundError:  # of another platform
        return found
    found.add(key)
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            continue
        if canonicalize_name(requirement.name) not in found:
            closure(requirement.name, frozenset(requirement.extras), found)
    return found


def size_mb(name: str) -> float:
    """Size of the files of a distribution."""
    files = (Path(str(file.locate())) for file in distribution(name).files or [])
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def main() -> None:
    """Print a line per route."""
    core = closure(PROJECT, frozenset(), set())
    print(f"core: {sum(size_mb(name) for name in core - {PROJECT}) + BUNDLE_MB:,.0f} MB, {len(core)} distributions")
    for extra in EXTRAS:
        further = closure(PROJECT, frozenset({extra}), set()) - core
        print(f"{extra}: +{sum(map(size_mb, further)):,.0f} MB, {len(further)} distributions")


if __name__ == "__main__":
    main()
