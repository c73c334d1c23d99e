"""Record the figures of runs in one file, from which ``sct reproduce --recorded`` makes tables without them.

    python benchmarks/release/record_runs.py runs docs/tables/runs.json

The file has the resolved recipe, training report, scores and provenance of every run directory below the folder, but
neither bundles nor captions.
"""

import argparse
from pathlib import Path

from sct.reproduction.records import record_runs

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    print("\n".join(record_runs(given.runs, given.out)))
