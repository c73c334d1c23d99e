import subprocess
import sys


def test_heavy_packages_are_imported_lazily():
    """In a subprocess, because other tests have imported them."""
    heavy = ("scipy", "sklearn", "spacy", "pyarrow")
    code = f"import sys, sct.sorting; print(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
