import subprocess
import sys


def test_nothing_heavy_is_imported_before_it_is_needed():
    """Not as an import here: other tests have imported all of it by now."""
    heavy = ("scipy", "sklearn", "spacy", "pyarrow")
    code = f"import sys, sct.sorting; print(*(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
