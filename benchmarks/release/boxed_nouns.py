"""Share of its uses in which people drew a box for a noun, from the training split of Flickr30k Entities.

    python benchmarks/release/boxed_nouns.py flickr30k-entities/ src/sct/data/grounding/boxed_nouns.toml

"a man" has a box, "a kitchen" is where the photograph was taken. Last words of phrases, as they are written, with at
least ``MIN_USES`` uses and a share below ``MAX_SHARE`` are listed, whatever their part of speech. A noun that is not
listed has the share of its lemma, or else counts as always boxed.
"""

import argparse
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

MIN_USES, MAX_SHARE = 20, 0.7
_PHRASE = re.compile(r"\[/EN#(\d+)\S* ([^\]]+)\]")
_HEADER = """\
# Last words of phrases of which people boxed fewer than {max_share:.0%} of the uses, and the share that they boxed:
# Flickr30k Entities, {images:,} training images, words with {min_uses} uses or more.
# Written by benchmarks/release/boxed_nouns.py.
"""


def boxed_ids(annotation: Path) -> set[str]:
    """Entities of an image that have a box."""
    return {
        name.text or ""
        for thing in ElementTree.parse(annotation).iter("object")
        if thing.find("bndbox") is not None
        for name in thing.iter("name")
    }


def main() -> None:
    """Count phrases by their last word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flickr30k", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    names = (options.flickr30k / "train.txt").read_text("utf-8").split()
    uses, boxed = Counter[str](), Counter[str]()
    for name in names:
        with_box = boxed_ids(options.flickr30k / "Annotations" / f"{name}.xml")
        for entity, phrase in _PHRASE.findall((options.flickr30k / "Sentences" / f"{name}.txt").read_text("utf-8")):
            noun = phrase.split()[-1].lower()
            uses[noun] += 1
            boxed[noun] += entity in with_box
    shares = {noun: boxed[noun] / count for noun, count in uses.items() if count >= MIN_USES}
    listed = {noun: share for noun, share in sorted(shares.items()) if share < MAX_SHARE and noun.isalpha()}
    lines = "".join(f"{noun} = {share:.2f}\n" for noun, share in listed.items())
    header = _HEADER.format(max_share=MAX_SHARE, images=len(names), min_uses=MIN_USES)
    options.out.write_text(header + lines, encoding="utf-8")
    print(f"{options.out}: {len(listed)} of {len(shares)} nouns")


if __name__ == "__main__":
    main()
