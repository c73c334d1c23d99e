"""The words a captioner can say, in a defined order.

Vocabularies that come from elsewhere.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sct.errors import InputError
from sct.storage.atomic import atomic_write

UNK, PAD, BOS, EOS = range(4)
SPECIAL_TOKENS = ("<unk>", "<pad>", "<bos>", "<eos>")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words with their ids: the four special ones, then by falling frequency, ties in alphabetical order.

    The order makes a stricter vocabulary a prefix of a laxer one, so a dataset that stores the ids of all its words
    serves every threshold: an id past the end is the unknown word.

    >>> vocabulary = Vocabulary.from_counts({"a": 9, "dog": 4, "cat": 4, "okapi": 1}, min_count=2)
    >>> vocabulary.words
    ('<unk>', '<pad>', '<bos>', '<eos>', 'a', 'cat', 'dog')
    >>> vocabulary.encode(["a", "dog", "okapi"])
    [4, 6, 0]
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    """How often each word was seen; 0 for the special ones."""
    ids: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the order and index the words."""
        if self.words[:4] != SPECIAL_TOKENS:
            raise InputError(f"a vocabulary starts with {self.words[:4]}: expected {SPECIAL_TOKENS}")
        if len(self.counts) != len(self.words):
            raise InputError(f"a vocabulary has {len(self.words)} words but {len(self.counts)} counts")
        ids = {word: index for index, word in enumerate(self.words)}
        if len(ids) != len(self.words):
            repeated = next(word for index, word in enumerate(self.words) if ids[word] != index)
            raise InputError(f"a vocabulary has the word {repeated!r} twice")
        object.__setattr__(self, "ids", ids)

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], *, min_count: int = 5) -> "Vocabulary":
        """Keep the words seen at least ``min_count`` times."""
        kept = sorted(
            ((word, count) for word, count in counts.items() if count >= min_count and word not in SPECIAL_TOKENS),
            key=lambda item: (-item[1], item[0]),
        )
        return cls(SPECIAL_TOKENS + tuple(word for word, _ in kept), (0,) * 4 + tuple(count for _, count in kept))

    def __len__(self) -> int:
        """Count the words, special ones included."""
        return len(self.words)

    def with_min_count(self, min_count: int) -> "Vocabulary":
        """Keep the words seen at least ``min_count`` times; ids of the kept words do not change."""
        size = 4 + sum(count >= min_count for count in self.counts[4:])
        return Vocabulary(self.words[:size], self.counts[:size])

    def encode(self, words: Iterable[str]) -> list[int]:
        """Ids of words, without begin and end."""
        return [self.ids.get(word, UNK) for word in words]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Words of ids, up to the first end; begin and padding are left out.

        >>> Vocabulary.from_counts({"dog": 5}).decode([BOS, 4, EOS, PAD])
        ['dog']
        """
        words = []
        for index in ids:
            if index == EOS:
                break
            if index not in (BOS, PAD):
                words.append(self.words[index] if index < len(self.words) else self.words[UNK])
        return words

    def save(self, path: Path) -> None:
        """Write as JSON."""
        with atomic_write(path) as file:
            content = {"words": self.words, "counts": self.counts}
            file.write(json.dumps(content, ensure_ascii=False).encode("utf-8"))

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read what ``save`` wrote."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            words, counts = content["words"], content["counts"]
        except FileNotFoundError:
            raise InputError(f"{path} does not exist: expected a vocabulary file") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f'{path} is not a vocabulary ({error}): expected {{"words": [...], "counts": [...]}}'
            ) from error
        if not (_all_of(words, str) and _all_of(counts, int)):
            raise InputError(f"{path} is not a vocabulary: expected a list of words and a list of whole numbers")
        return cls(tuple(words), tuple(counts))


def _all_of(values: object, kind: type) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and all(isinstance(v, kind) for v in values)


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a vocabulary.json, or plain text with one word a line in the order of their ids.

    Plain text holds the four special words first or not at all; then they are put in front. It does not say how often
    a word was seen, so all counts are 0.
    """
    if path.suffix == ".json":
        return Vocabulary.load(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: expected a vocabulary, .json or one word a line") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: expected a vocabulary, .json or one word a line") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error}): expected one word a line") from error
    # Not splitlines: it also splits at characters that may stand inside a word.
    words = text.removesuffix("\n").split("\n") if text else []
    for number, word in enumerate(words, start=1):
        if not word or any(character.isspace() for character in word):
            raise InputError(
                f"{path}, line {number}: {word!r} is not one word; expected one a line and no empty line (a vocabulary "
                "whose words hold spaces must come as vocabulary.json)"
            )
    if tuple(words[:4]) != SPECIAL_TOKENS:
        for number, word in enumerate(words, start=1):
            if word in SPECIAL_TOKENS:
                raise InputError(
                    f"{path}, line {number}: {word} is out of its place; expected {' '.join(SPECIAL_TOKENS)} as the first "
                    "four lines, or none of them"
                )
        words = [*SPECIAL_TOKENS, *words]
    try:
        return Vocabulary(tuple(words), (0,) * len(words))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
