"""Control fidelity of a bundle by search, for the selection or the report half of a validation split.

    python benchmarks/quality/control_fidelity.py default data/val.jsonl --half selection --kinds mention,random,reverse
    python benchmarks/quality/control_fidelity.py default data/val.jsonl --half report --search "whole chunks" \
        --search "cover, min_fit 0.5"

Named: share of chunks that name their regions as people do. Described: share of region sets with a noun chunk. NW: noun
alignment with the human nouns in the order asked for. Extra: share of objects that no person mentions. C: CIDEr-D
against the human captions of the control. Seconds: per caption, encoding of images included.

On the selection half a search is chosen, by a rule that was written down before the first such run: of the searches
whose CIDEr in the order of mention is at most 2 % below that of whole chunks, and whose share described in a random
order is at most 0.01 below, the one with the highest share named in a random order.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from sct.captioner.bundle import load_bundle
from sct.captioner.captioner import load
from sct.captioner.requests import CaptionOptions
from sct.data.halves import in_report_half
from sct.evaluation.control_fidelity import ORDER_KINDS, FidelityResult, OrderKind, evaluate_fidelity

BASE, ANY_NOUN = "whole chunks", "any noun"
SEARCHES = {
    "plain": CaptionOptions(whole_chunks=False),
    BASE: CaptionOptions(),
    ANY_NOUN: CaptionOptions(min_fit=0.0),
    "cover": CaptionOptions(cover=True),
    **{f"min_fit {value}": CaptionOptions(min_fit=value) for value in (0.3, 0.5, 0.7)},
    **{f"cover, min_fit {value}": CaptionOptions(cover=True, min_fit=value) for value in (0.3, 0.5, 0.7)},
}
"""The plain search is that of version 0.1, the others keep chunks whole. "Whole chunks" is the default search, which
leaves out nouns that do not fit; "any noun" does not."""
MAX_CIDER_LOSS = 0.02
MAX_DESCRIBED_LOSS = 0.01


def choose(found: Mapping[str, Sequence[FidelityResult]]) -> str:
    """Search that the rule of the module's docstring chooses."""
    scores = {name: {result.kind: result for result in results} for name, results in found.items()}
    base = scores[BASE]

    def is_allowed(name: str) -> bool:
        own = scores[name]["mention"].cider, base["mention"].cider
        assert own[0] is not None
        assert own[1] is not None
        described = scores[name]["random"].fidelity.described
        return (
            own[0] >= own[1] * (1 - MAX_CIDER_LOSS)
            and described >= base["random"].fidelity.described - MAX_DESCRIBED_LOSS
        )

    return max(filter(is_allowed, scores), key=lambda name: scores[name]["random"].fidelity.named)


def main() -> None:
    """Print a Markdown table as it is made, the search that is chosen if the half is that of selection, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("data", type=Path, help="grounded JSONL file beside its images")
    parser.add_argument("--images", type=Path, action="append", default=[], help="folder of the images")
    parser.add_argument("--half", choices=("selection", "report"), required=True)
    parser.add_argument("--search", action="append", choices=tuple(SEARCHES), help="repeatable; default: all")
    parser.add_argument("--kinds", default=",".join(ORDER_KINDS), help="kinds of control; default: %(default)s")
    parser.add_argument("--max-controls", type=int, help="first controls of the half; default: all")
    parser.add_argument("--min-region-sets", type=int, default=1, help="leave smaller controls out; default: 1")
    args = parser.parse_args()
    kinds: list[OrderKind] = [kind for kind in get_args(OrderKind) if kind in args.kinds.split(",")]
    nouns = load_bundle(args.bundle).nouns
    assert nouns is not None
    captioner = load(args.bundle)
    found = {}
    header = ("search", "control", "named", "described", "NW", "extra", "C", "captions", "seconds")
    print(f"| {' | '.join(header)} |\n" + "| --- " * len(header) + "|", flush=True)
    for name in args.search or SEARCHES:
        start = time.perf_counter()
        found[name] = evaluate_fidelity(
            captioner,
            args.data,
            nouns,
            images=args.images,
            kinds=kinds,
            options=SEARCHES[name],
            max_controls=args.max_controls,
            min_region_sets=args.min_region_sets,
            select_image=lambda image_id: in_report_half(image_id) == (args.half == "report"),
        )
        seconds = (time.perf_counter() - start) / sum(result.fidelity.num_captions for result in found[name])
        for result in found[name]:
            scores = result.fidelity
            row = (f"{scores.named:.3f}", f"{scores.described:.3f}", f"{scores.order:.3f}", f"{scores.extra:.3f}")
            cider = "" if result.cider is None else f"{result.cider:.1f}"
            print(
                f"| {name} | {result.kind} | {' | '.join(row)} | {cider} | {scores.num_captions} | {seconds:.3f} |",
                flush=True,
            )
    if args.half == "selection" and {"mention", "random"} <= set(kinds) and BASE in found:
        print(f"chosen: {choose(found)}")
    print(json.dumps({name: [result.as_dict() for result in results] for name, results in found.items()}))


if __name__ == "__main__":
    main()
