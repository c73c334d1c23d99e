"""Non-ASCII characters as the Penn Treebank tokenizer of the official caption evaluation classifies them.

Recorded from the Java tool, character by character over the Basic Multilingual Plane.
"""

import unicodedata

LETTER, SYMBOL, IGNORED = "\xe9", "\xa7", " "
"""Characters that stand for their class in ``shape``: part of a word, a token of its own, dropped."""

_SYMBOLS = (
    "a1-a9 ac ae-b4 b6-b9 bc-bf d7 f7 37e 387 589 5be 5c0 5c3 5c6 5f3-5f4 600-603 606-60c 614 61b 61e-61f 66a 66d 6d4 "
    "700-70d 7f6-7f8 964-965 e3f e4f 1fbd 2016-2017 201a 201e-2023 2030-2038 203b 203e-2042 2044 2070 2074-207e "
    "2080-208e 20a0 20a4 20ac 2100-2101 2103-2106 2108-2109 2114 2116-2118 211e-2123 2125 2127 2129 212e 213a-213b "
    "2140-2144 214a-214d 214f 2153-215e 2190-2bff 3001-3002 3012 30fb ff01-ff0f ff1a-ff20 ff3b-ff40 ff5b-ff65 "
    "ffe0-ffe1 ffe5-ffe6 80"
)
_STAND_INS = {"\u2019": "'", "\x92": "'", "\u203a": "'", "\u2010": "-", "\u2011": "-", "\u058a": "-", "\xad": LETTER}
_LAST_MARK = "\u0ecd"
"""Later combining marks are dropped."""

REPLACEMENTS = str.maketrans({
    "\u2019": "'", "\x92": "'", "\u203a": "'", "\xad": "",
    "\xa2": "cents", "\xa3": "#", "\xa4": "$", "\x80": "$", "\u20a0": "$", "\u20ac": "$",
    "\xbc": "1/4", "\xbd": "1/2", "\xbe": "3/4", "\u2153": "1/3", "\u2154": "2/3",
})  # fmt: skip
"""Characters that a token spells otherwise."""


def _parse_ranges(ranges: str) -> frozenset[int]:
    edges = [[int(edge, 16) for edge in part.split("-")] for part in ranges.split()]
    return frozenset(code for first, *last in edges for code in range(first, (last or [first])[0] + 1))


class _Shapes(dict[int, str]):
    """Translation table of ``shape``, filled on demand."""

    _symbols = _parse_ranges(_SYMBOLS)

    def __missing__(self, code: int) -> str:
        self[code] = found = self._classify(code)
        return found

    def _classify(self, code: int) -> str:
        character = chr(code)
        if code < 0x80 or character in _STAND_INS:
            return _STAND_INS.get(character, character)
        if code in self._symbols:
            return SYMBOL
        if code > 0xFFFF:
            return IGNORED
        if character.isdecimal():
            return "0"
        is_mark = character <= _LAST_MARK and unicodedata.category(character) in ("Mn", "Mc", "Sk")
        return LETTER if character.isalpha() or is_mark else IGNORED


_shapes = _Shapes()


def shape(text: str) -> str:
    r"""Replace each non-ASCII character by one that stands for its class; the length stays.

    >>> shape("caf\xe9\u2019s 5\u20ac")
    "café's 5§"
    """
    return text if text.isascii() else text.translate(_shapes)
