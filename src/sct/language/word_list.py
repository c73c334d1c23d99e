"""Vocabularies that come from elsewhere."""

from pathlib import Path

from sct.errors import InputError
from sct.language.vocabulary import SPECIAL_WORDS, Vocabulary


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
        raise InputError(f"{path} does not exist: wanted a vocabulary, .json or one word a line") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: wanted a vocabulary, .json or one word a line") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error}): wanted one word a line") from error
    # Not splitlines: it also splits at characters that may stand inside a word.
    words = text.removesuffix("\n").split("\n") if text else []
    for number, word in enumerate(words, start=1):
        if not word or any(character.isspace() for character in word):
            raise InputError(
                f"{path}, line {number}: {word!r} is not one word; wanted one a line and no empty line (a vocabulary "
                "whose words hold spaces must come as vocabulary.json)"
            )
    if tuple(words[:4]) != SPECIAL_WORDS:
        for number, word in enumerate(words, start=1):
            if word in SPECIAL_WORDS:
                raise InputError(
                    f"{path}, line {number}: {word} is out of its place; wanted {' '.join(SPECIAL_WORDS)} as the first "
                    "four lines, or none of them"
                )
        words = [*SPECIAL_WORDS, *words]
    try:
        return Vocabulary(tuple(words), (0,) * len(words))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
