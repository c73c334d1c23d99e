"""The captioner's vocabulary: words in order of their ids, and the four special tokens."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sct.errors import InputError, format_value
from sct.limits import MAX_VOCABULARY_BYTES, MAX_VOCABULARY_SIZE, MAX_WORD_CHARACTERS
from sct.storage.atomic import atomic_write
from sct.storage.reading import parse_json, read_bytes, read_text

UNK, PAD, BOS, EOS = range(4)
SPECIAL_TOKENS = ("<unk>", "<pad>", "<bos>", "<eos>")
_NUM_SPECIAL = len(SPECIAL_TOKENS)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words with ids: the four special tokens, then by decreasing frequency, ties in alphabetical order.

    A vocabulary with a higher ``min_count`` is therefore a prefix of one with a lower one: a dataset can store ids of
    all words, and ids beyond the end of a smaller vocabulary are unknown words.

    >>> vocabulary = Vocabulary.from_counts({"a": 9, "dog": 4, "cat": 4, "okapi": 1}, min_count=2)
    >>> vocabulary.words
    ('<unk>', '<pad>', '<bos>', '<eos>', 'a', 'cat', 'dog')
    >>> vocabulary.encode(["a", "dog", "okapi"])
    [4, 6, 0]
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    """Occurrences of each word; 0 for special tokens."""
    ids: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the words and index them."""
        if self.words[:_NUM_SPECIAL] != SPECIAL_TOKENS:
            raise InputError(f"vocabulary begins with {self.words[:_NUM_SPECIAL]}: expected {SPECIAL_TOKENS}")
        if len(self.counts) != len(self.words):
            raise InputError(f"vocabulary has {len(self.words)} words but {len(self.counts)} counts: expected as many")
        if len(self.words) > MAX_VOCABULARY_SIZE:
            raise InputError(f"vocabulary has {len(self.words):,} words: expected at most {MAX_VOCABULARY_SIZE:,}")
        invalid = next((word for word in self.words if not _is_word(word)), None)
        if invalid is not None:
            expected = f"Unicode words of 1 to {MAX_WORD_CHARACTERS:,} characters"
            raise InputError(f"vocabulary has {format_value(invalid)}: expected {expected}")
        if not 0 <= min(self.counts) <= max(self.counts) < 1 << 63:
            extreme = max(self.counts, key=abs)
            raise InputError(f"vocabulary has the count {format_value(extreme)}: expected 0 or more")
        ids = {word: index for index, word in enumerate(self.words)}
        if len(ids) != len(self.words):
            repeated = next(word for index, word in enumerate(self.words) if ids[word] != index)
            raise InputError(f"vocabulary has the word {repeated!r} twice: expected each word once")
        object.__setattr__(self, "ids", ids)

    @classmethod
    def from_counts(cls, counts: Mapping[str, int], *, min_count: int = 5) -> "Vocabulary":
        """Build the vocabulary of the words with at least ``min_count`` occurrences."""
        kept = sorted(
            ((word, count) for word, count in counts.items() if count >= min_count and word not in SPECIAL_TOKENS),
            key=lambda item: (-item[1], item[0]),
        )
        words, kept_counts = tuple(word for word, _ in kept), tuple(count for _, count in kept)
        return cls(SPECIAL_TOKENS + words, (0,) * _NUM_SPECIAL + kept_counts)

    def __len__(self) -> int:
        """Number of words, including special tokens."""
        return len(self.words)

    def with_min_count(self, min_count: int) -> "Vocabulary":
        """Keep the words with at least ``min_count`` occurrences; their ids do not change."""
        size = _NUM_SPECIAL + sum(count >= min_count for count in self.counts[_NUM_SPECIAL:])
        return Vocabulary(self.words[:size], self.counts[:size])

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words, UNK for unknown ones; BOS and EOS are not added.

        A caption may spell a special token: it is an unknown word.

        >>> Vocabulary.from_counts({"dog": 5}).encode(["a", "dog", "<unk>", "<eos>"])
        [0, 4, 0, 0]
        """
        ids = self.ids
        return [index if (index := ids.get(word, UNK)) >= _NUM_SPECIAL else UNK for word in words]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the words of ids up to the first EOS, without BOS and PAD.

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
        """Write the vocabulary as JSON."""
        with atomic_write(path) as file:
            content = {"words": self.words, "counts": self.counts}
            file.write(json.dumps(content, ensure_ascii=False).encode("utf-8"))

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read a file written by ``save``."""
        content = parse_json(read_bytes(path, "a vocabulary file", max_bytes=MAX_VOCABULARY_BYTES), path)
        if not (isinstance(content, dict) and content.keys() >= {"words", "counts"}):
            raise InputError(f'{path} is not a vocabulary: expected {{"words": [...], "counts": [...]}}')
        words, counts = content["words"], content["counts"]
        if not (_is_list_of(words, str) and _is_list_of(counts, int)):
            raise InputError(f"{path} is not a vocabulary: expected a list of words and a list of integers")
        return _named(path, words, counts)


def _is_word(word: str) -> bool:
    """Whether a word is neither empty nor huge, and has no lone surrogates."""
    return 0 < len(word) <= MAX_WORD_CHARACTERS and (word.isascii() or not any("\ud800" <= c <= "\udfff" for c in word))


def _is_list_of(values: object, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def _named(path: Path, words: Sequence[str], counts: Sequence[int]) -> Vocabulary:
    try:
        return Vocabulary(tuple(words), tuple(counts))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_vocabulary(path: Path) -> Vocabulary:
    """Read a vocabulary.json, or a text file with one word per line in order of the ids.

    In a text file the four special tokens come first or are absent; absent ones are added. All counts are then 0.
    """
    if path.suffix == ".json":
        return Vocabulary.load(path)
    text = read_text(path, "a vocabulary, .json or one word per line", max_bytes=MAX_VOCABULARY_BYTES)
    # Not splitlines, which also splits at characters that may occur inside a word.
    words = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    for number, word in enumerate(words, start=1):
        if not word or any(character.isspace() for character in word):
            raise InputError(
                f"{path}, line {number}: got {word!r}, expected one word per line and no empty lines: "
                "save words that contain spaces as vocabulary.json"
            )
    if tuple(words[:_NUM_SPECIAL]) != SPECIAL_TOKENS:
        for number, word in enumerate(words, start=1):
            if word in SPECIAL_TOKENS:
                raise InputError(
                    f"{path}, line {number}: got {word}, expected {' '.join(SPECIAL_TOKENS)} as the first four lines, "
                    "or none of them"
                )
        words = [*SPECIAL_TOKENS, *words]
    return _named(path, words, [0] * len(words))
