"""Penn Treebank tokens as the Java tool of the COCO evaluation cuts them (Stanford CoreNLP 3.4.1, lower case).

It reads like a lexer: at each place every rule is tried and the longest match wins, the earlier rule at a tie. What a
rule only peeks at ("do" is a word before "n't") counts as matched length but is not part of the token. American
spelling is not imposed: "colour" stays "colour".

Every rule was checked against what the tool prints, and the word lists were found that way. The tool's source was not
open at the time, but it was known: the rules for telephone numbers, addresses, faces, words with slashes or hyphens and
words with an apostrophe of their own follow its grammar as remembered, and are not an independent derivation.

Known to differ: the tool reads all captions as one text, so whether the full stop stays in "... a letter K." at the end
of one caption hangs on the first word of the next (here it stays, as for the last caption); line separators other than
the line feed end a line there and are spaces here; vowel signs of Indic scripts cut words here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from sct.language import abbreviations


class Token(NamedTuple):
    """A token as the evaluation prints it and the part of the text it was made from."""

    text: str
    start: int
    end: int


# Superscripts and fractions count as word characters for Python but not for the Java tool; accents and soft hyphens the
# other way round.
_NOT_LETTER = r"\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209f\u2150-\u218f\u2460-\u2bff"
_MARK = r"\u00ad\u0300-\u036f"
_L = rf"(?:[^\W\d_{_NOT_LETTER}]|[{_MARK}])"
_X = rf"(?:[^\W_{_NOT_LETTER}]|[{_MARK}])"  # a letter or a digit
_CURLY = "[\u0092\u2019]"
_APOSTROPHE = "['\u0092\u2019]"
_QUOTE = "['`\u0091\u0092\u2018\u2019\u201b]"
_GAP = "[ \u00a0]"
_INITIALS = r"[A-Za-z](?:\.[A-Za-z])+\."
_WORD = rf"{_L}{_X}*(?:[.!?]{_L}{_X}*)*"
_HYPHENED = rf"[A-Za-z0-9][A-Za-z0-9.,]*(?:-(?:{_INITIALS}|[A-Za-z0-9]+))+"
_PART = rf"(?:[dlDLoO]{_QUOTE}{_X})?{_X}+"
_JOINED = rf"{_PART}(?:[-_]{_PART})*"
_SLASH_PART = r"[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}"
_FILE_ENDING = (
    "bat|bmp|cgi|class|cpp|c|dll|docx|doc|exe|gif|gz|html|htm|h|jar|java|jpeg|jpg|mov|mp3|pdf|php|pl|png|ppt|ps|py|sql|"
    "tar|txt|wav|xml|x|zip"
)
_UNFIT_FOR_URL = r"\s\"<>|(){}"
_URL_TAIL = rf"[^{_UNFIT_FOR_URL}]+[^{_UNFIT_FOR_URL}.!?,\-]"
_EMAIL = rf"[A-Za-z0-9][^{_UNFIT_FOR_URL}]*@(?:[^{_UNFIT_FOR_URL}.]+\.)*[^{_UNFIT_FOR_URL}.]+>?"
_EYE = "[-^x=~<>']"


def _any_of(words: frozenset[str]) -> str:
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


def _either_case(pattern: str) -> str:
    return f"(?i:{pattern})"


_CAPITALISED = "|".join(f"{word.capitalize()}|{word.upper()}" for word in sorted(abbreviations.CAPITALISED))
_WITH_ENDING = rf"(?:{_either_case(_any_of(abbreviations.MAYBE_LAST))}|{_CAPITALISED}|p?[Pp]t[ey]s?)"
_SENTENCE_START = "|".join(f"{word.capitalize()}|{word.upper()}" for word in sorted(abbreviations.SENTENCE_STARTS))

# In each rule the first group, where there is one, is the token and the rest is only peeked at.
_WORD_RULES = (
    # Words written together.
    _either_case(rf"(can)not(?!{_X})|(gon|wan)na(?!{_X})|(got)ta(?!{_X})|(gim|lem)me(?!{_X})"),
    _either_case(rf"([a-z]*[a-mo-z])n{_APOSTROPHE}t"),
    _either_case(rf"n{_APOSTROPHE}t"),
    _either_case(rf"({_WORD}){_APOSTROPHE}(?:s|m|d|ll|re|ve)"),
    _either_case(rf"(y{_APOSTROPHE}){_L}"),
    # Words with an apostrophe of their own.
    rf"[A-HJ-XZdlno]{_QUOTE}{_L}{{2,}}",
    rf"{_L}+[aeiouyAEIOUY]{_QUOTE}[aeiouA-Z]{_L}*",
    _either_case(
        "(?:[dlj]|dunkin|ol|somethin)'|(?:c'mon|e'er|ev'ry|li'l|nat'l|nor'easter|o'o|s'mores)|cont'd[.]".replace(
            "'", _APOSTROPHE
        )
    ),
    # Addresses.
    _EMAIL,
    _either_case("https?://" + _URL_TAIL),
    rf"(?i:www)\.(?:[^{_UNFIT_FOR_URL}.!?,]+\.)+[A-Za-z]{{2,4}}(?:/{_URL_TAIL})?",
    rf"(?:{_X}+\.)+(?i:{_FILE_ENDING})(?=[\s!,.?])",
    # Plain words; a full stop before a comma stays with the word.
    _WORD,
    rf"((?:{_HYPHENED}|{_JOINED}|{_WORD})\.)[,;:]",
    # Short forms. Those that may end a sentence peek at two characters, so "jan.x" is cut and "jan.xyz" is not.
    rf"({_WITH_ENDING}\.)(?s:..)",
    _either_case(rf"(?:ph|ed)\.d\.|(?:{_any_of(abbreviations.NEVER_LAST)})\."),
    r"(?:[Mm][Ff]|[Mm][Tt])g\.",
    _either_case(rf"((?:{_any_of(abbreviations.BEFORE_NUMBER)})\.){_GAP}?\d"),
    rf"{_INITIALS}|[A-Za-z]\.",
    rf"([A-Za-z])\.\s+(?:{_SENTENCE_START})(?=\s)",
    # Words in several parts.
    _HYPHENED,
    _JOINED,
    rf"{_SLASH_PART}(?:\\?/{_SLASH_PART}){{1,2}}",
    "[A-Z]+(?:(?:[+]|&(?:(?i:amp);)?)[A-Z]+)+",
    r"[Cc]\+\+|[CcFf]#",
    r"[A-Z]+\$",
)
# From the comma to the underscore nothing may stand in a bare domain: neither digits nor capitals.
_DOMAIN_RULE = rf"(?:[^\s\"`'<>|!?(){{}},-_$]+\.)+(?:com|net|org|edu)(?:/{_URL_TAIL})?"
_NUMBER_RULES = (
    r"[+-]?(?:\d*(?:[.,:]\d+)+|\d+)",
    r"(?:\d{1,4}[- \u00a0])?\d{1,4}(?:\\?/|\u2044)\d{1,4}",
    rf"(?:\(\d{{2,3}}\){_GAP}?|(?:\+\+?)?(?:\d{{2,4}}[- \u00a0])?\d{{2,4}}[- \u00a0])\d{{3,4}}[- \u00a0]?\d{{3,5}}",
    r"(?:\+\+?)?\d{2,4}\.\d{2,4}\.\d{3,4}(?:\.\d{3,5})?",
)
_SIGN_RULES = (
    _either_case("'(?:s|m|d|ll|re|ve)(?![a-z])"),
    _either_case(f"{_CURLY}(?:s|m|d|ll|re|ve|n)"),
    _either_case(f"({_APOSTROPHE}t)(?:is|was)"),
    _either_case(rf"{_APOSTROPHE}n(?:{_APOSTROPHE}|(?!\S))|{_APOSTROPHE}(?:till?|em|cause)"),
    rf"{_APOSTROPHE}[2-9]0s|{_APOSTROPHE}\d\d(?!\S)",
    r"@[A-Za-z_][A-Za-z_0-9]*",
    rf"#{_L}+",
    f"<{_EMAIL}",
    r"<[A-Za-z][\w.:-]*(?:\s+[A-Za-z][\w.:-]*(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'))?)*\s*/?>",
    r"</[A-Za-z][\w.:-]*\s*>|<[!?][A-Za-z-][^>]*>",
    r"&#\d+;",
    _either_case("&(?:amp|lt|gt|quot|apos|nbsp|mdash);"),
    r"[<>]?[:;=][-o*']?[()DPdpO\\{@|\[\]](?![A-Za-z0-9])",
    rf"{_EYE}_{_EYE}|\({_EYE}[_.]?{_EYE}\)",
    r"-+|_+|\*+|[!?]+|#{2,}|@{2,}|<<|>>|''|``",
    r"\.{3,}|[^\w\s]",
)
_BY_FIRST: dict[str, tuple[re.Pattern[str], ...]] = {
    kind: tuple(re.compile(rule) for rule in rules)
    for kind, rules in {
        "letter": (*_WORD_RULES, _DOMAIN_RULE),
        "digit": (*_WORD_RULES, *_NUMBER_RULES),
        "sign": (*_NUMBER_RULES, *_SIGN_RULES, _DOMAIN_RULE),
    }.items()
}

_ASCII_OF = {
    "(": "-lrb-",
    ")": "-rrb-",
    "[": "-lsb-",
    "]": "-rsb-",
    "{": "-lcb-",
    "}": "-rcb-",
    "\u00a2": "cents",
    "\u00a3": "#",
    "\u00a4": "$",
    "\u0080": "$",
    "\u20a0": "$",
    "\u20ac": "$",
    "\u00bc": "1/4",
    "\u00bd": "1/2",
    "\u00be": "3/4",
    "\u2153": "1/3",
    "\u2154": "2/3",
    "&amp;": "&",
    "&lt;": "<",
    "&gt;": ">",
    "&quot;": "''",
    "&apos;": "'",
    "&nbsp;": "",
    "&mdash;": "--",
    '"': "''",
    "\u0085": "...",
    "\u2026": "...",
    **dict.fromkeys("\u0091\u2018\u201b\u2039", "`"),
    **dict.fromkeys("\u0092\u2019\u203a", "'"),
    **dict.fromkeys("\u0093\u00ab\u201c", "``"),
    **dict.fromkeys("\u0094\u00bb\u201d", "''"),
    **dict.fromkeys("\u0096\u0097\u2013\u2014\u2015", "--"),
    **dict.fromkeys(("---", "----"), "--"),
}
# Signs outside ASCII that make a token; all others, emoji among them, are left out by the Java tool.
_KNOWN_SIGN = re.compile(
    "[!-~\u00a1\u00a5-\u00bf\u00d7\u00f7\u2016-\u2044\u2070-\u208e\u2100-\u2bff\u3001\u3002\u3012\u30fb\uff01-\uff65"
    "\uffe0-\uffe6]"
)
_FACE = re.compile(r"[<>]?[:;=].{1,2}|\(.{2,3}\)")
_CLITIC = re.compile(_either_case(rf"{_APOSTROPHE}(?:s|m|d|ll|re|ve|tis|twas|t)|n{_APOSTROPHE}t"))


def _rewritten(piece: str) -> str:
    """The token that a piece of the text becomes; empty where the piece is left out."""
    token = piece.lower()
    if token.isalnum() and token.isascii():
        return token
    if token in _ASCII_OF:
        return _ASCII_OF[token]
    if len(token) == 1:
        return token if token.isalnum() or _KNOWN_SIGN.match(token) else ""
    if _CLITIC.fullmatch(token):
        return token.replace("\u2019", "'").replace("\u0092", "'")
    if token.startswith("..."):
        return "..."
    if token.startswith("(") or _FACE.fullmatch(token):
        token = token.replace("(", "-lrb-").replace(")", "-rrb-")
    return token.replace("\u00ad", "").replace("&amp;", "&").replace(" ", "\u00a0")


def tokens_of(text: str) -> Iterator[Token]:
    """Cut one line of text into Penn Treebank tokens, punctuation included.

    A token may hold a no-break space where the text has a plain one ("1 1/2"): that is how the tool prints it.

    >>> [token.text for token in tokens_of("He can't (really) pay $1,000.")]
    ['he', 'ca', "n't", '-lrb-', 'really', '-rrb-', 'pay', '$', '1,000', '.']
    """
    # A line break ends every line, and rules that peek past the last word see it.
    line = text.replace("\n", " ") + "\n\n"
    place, end_of_text = 0, len(text)
    while place < end_of_text:
        first = line[place]
        if first.isspace() and first != "\u0085":
            place += 1
            continue
        kind = "letter" if first.isalpha() else "digit" if first.isdigit() else "sign"
        longest, end = 0, place + 1
        for rule in _BY_FIRST[kind]:
            match = rule.match(line, place)
            if match is not None and match.end() - place > longest:
                longest = match.end() - place
                end = match.end(match.lastindex or 0)
        token = _rewritten(line[place:end])
        if token:
            yield Token(token, place, end)
        place = end
