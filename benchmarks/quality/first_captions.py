"""Hide the groundings of all captions but the first: the grounded JSONL on which the first encoder was measured.

python benchmarks/quality/first_captions.py flickr8k-entities/val.jsonl build/first/val.jsonl
"""

import argparse
import json
from pathlib import Path


def main() -> None:
    """Copy a file; ``sct prepare`` grounds the other captions by transfer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="grounded JSONL")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("w", encoding="utf-8") as out:
        for text in options.source.read_text(encoding="utf-8").splitlines():
            image = json.loads(text)
            for caption in image["captions"][1:]:
                caption["mentions"] = None
            out.write(json.dumps(image) + "\n")


if __name__ == "__main__":
    main()
