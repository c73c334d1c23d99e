"""Control fidelity of a bundle by search: five kinds of control on the report half of a validation split.

    python benchmarks/quality/control_fidelity.py default data/val.jsonl [--max-controls 200]

Named: share of chunks that name their regions as people do. Described: share of region sets with a noun chunk. NW: noun
alignment with the human nouns in the order asked for. Extra: share of objects that no person mentions. C: CIDEr-D
against the human captions of the control. The plain search is that of version 0.1 (``whole_chunks=False``).
"""

import argparse
import json
from pathlib import Path

from sct.captioner.bundle import load_bundle
from sct.captioner.captioner import load
from sct.captioner.requests import CaptionOptions
from sct.data.halves import in_report_half
from sct.evaluation.control_fidelity import evaluate_fidelity

SEARCHES = {
    "plain": CaptionOptions(whole_chunks=False),
    "whole chunks (default)": CaptionOptions(),
    "plain, cover": CaptionOptions(whole_chunks=False, cover=True),
    "whole chunks, cover": CaptionOptions(cover=True),
    "whole chunks, min_fit 0.5": CaptionOptions(min_fit=0.5),
    "whole chunks, cover, min_fit 0.5": CaptionOptions(cover=True, min_fit=0.5),
}


def main() -> None:
    """Print a Markdown table as it is made, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path, help="grounded JSONL file beside its images")
    parser.add_argument("--max-controls", type=int, help="controls of the report half; default: all")
    args = parser.parse_args()
    nouns = load_bundle(args.bundle).nouns
    assert nouns is not None
    captioner = load(args.bundle)
    found = {}
    print("| search | control | named | described | NW | extra | C | captions |\n" + "| --- " * 8 + "|", flush=True)
    for name, options in SEARCHES.items():
        results = evaluate_fidelity(
            captioner,
            args.data,
            nouns,
            options=options,
            max_controls=args.max_controls,
            select_image=in_report_half,
        )
        found[name] = [result.as_dict() for result in results]
        for result in results:
            scores = result.fidelity
            row = (f"{scores.named:.3f}", f"{scores.described:.3f}", f"{scores.order:.3f}", f"{scores.extra:.3f}")
            cider = "" if result.cider is None else f"{result.cider:.1f}"
            print(f"| {name} | {result.kind} | {' | '.join(row)} | {cider} | {scores.num_captions} |", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
