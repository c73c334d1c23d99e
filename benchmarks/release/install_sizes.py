"""Size on disk of an installation without CUDA, and of each extra on top of it, in clean virtual environments.

    PIP_CONSTRAINT=constraints.txt python benchmarks/release/install_sizes.py dist/*.whl

torch must come from PyTorch's CPU index or a folder with its wheels (``PIP_EXTRA_INDEX_URL``, ``PIP_FIND_LINKS``).
Files of pip itself are included.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

EXTRAS = ("prepare", "train", "serve", "hub", "onnx", "supervision")
"""Those that are installed without CUDA; java-metrics is measured in docs/metrics.md."""


def size_mb(folder: Path) -> float:
    """Disk usage of a folder, as ``du`` counts it."""
    done = subprocess.run(["du", "-sk", str(folder)], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[0]) / 1000


def install(python: Path, requirement: str) -> None:
    """Install with pip, quietly."""
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", requirement], check=True)


def main() -> None:
    """Print a line per route."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args().wheel.resolve()
    with TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        subprocess.run([sys.executable, "-m", "venv", str(base)], check=True)
        install(base / "bin" / "python", str(wheel))
        core = size_mb(base)
        print(f"core: {core:,.0f} MB", flush=True)
        for extra in EXTRAS:
            # Files are shared with the core by hard links; du counts them in each folder on its own.
            copy = Path(folder) / extra
            subprocess.run(["cp", "-al", str(base), str(copy)], check=True)
            subprocess.run([sys.executable, "-m", "venv", "--upgrade", str(copy)], check=True)
            install(copy / "bin" / "python", f"{wheel}[{extra}]")
            print(f"{extra}: {size_mb(copy) - core:+,.0f} MB", flush=True)


if __name__ == "__main__":
    main()
