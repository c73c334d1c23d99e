"""Penn Treebank tokenizer for captions: lower case, no punctuation, as in the official caption evaluation.

A regular expression that reproduces the Java tokenizer of pycocoevalcap 1.2. ``benchmarks/speed/tokenizer.py`` compares
the two on captions of COCO and Flickr8k and on captions made to break it; docs/metrics.md has the result and all known
differences: "K." at the end of a caption, where the Java tool looks at the next caption, words glued without a space,
curly quotes next to each other, letters added to Unicode after 6.1.

A token of the Java tool may contain a space ("1 1/2", "no. 5", '<a href="x">'). It is split at its spaces here, as by
the official BLEU and CIDEr.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from string import ascii_lowercase
from typing import Generic, NamedTuple, TypeVar

from sct.language.ptb_characters import REPLACEMENTS, shape


class Token(NamedTuple):
    """A word and its character span in the text."""

    text: str
    start: int
    end: int


_ABBREVIATIONS = (
    "adj|adm|adv|al|ala|alex|apr|ariz|assn|assoc|atty|attys|aug|ave|bancorp|bldg|blvd|brig|bros|calif|capt|cf|cie|"
    "cmdr|co|col|colo|comdr|conn|corp|cos|cpl|ct|dak|dec|dept|det|dr|elec|ens|esq|est|etc|ext|feb|fla|fri|ft|ga|gen|"
    "gov|govs|hon|inc|ind|insp|intl|invt|jan|jos|jr|jul|jun|kan|kans|ky|lieut|lt|ltd|maj|mar|md|messrs|mfg|mich|minn|"
    "mlle|mme|mo|mon|mont|mr|mrs|ms|msgr|mt|natl|neb|nev|nov|oct|okla|penn|pfc|ph|plc|pres|prof|pty|pvt|rd|rep|reps|"
    "rev|rt|sen|sens|sep|sept|seq|sgt|spc|sq|sr|st|ste|supt|sys|tel|tenn|thu|thurs|treas|tue|tues|univ|va|vs|vt|wed|"
    "wis|wisc|wm|wyo"
)
"""They keep their full stop."""
_CAPITALIZED = "ark|az|del|ill|la|mass|miss|ore|pa|tex|wash"
"""Abbreviations that are words in lower case."""
_NUMBERED = "art|ca|fig|figs|no|nos|op|pp|prop"
"""Abbreviations before a number only: "no. 5"."""
_SENTENCE_STARTS = (
    "a|about|according|additionally|after|an|as|at|but|earlier|he|her|here|however|if|in|it|last|many|more|now|once|"
    "one|other|our|she|since|so|some|such|that|the|their|then|there|these|they|this|we|what|when|while|yet|you|mr[.]|"
    "ms[.]"
)
"""Before them, "K." is a letter and the end of a sentence."""
_FILE_EXTENSIONS = (
    "bat|bmp|c|cgi|class|cpp|dll|doc|docx|exe|gif|gz|h|htm|html|jar|java|jpeg|jpg|mov|mp3|pdf|php|pl|png|ppt|ps|py|"
    "sql|tar|txt|wav|x|xml|zip"
)

# Matches the ``shape`` of a text. The Java tool takes the longest match: the alternatives are in an order in which the
# first match is the longest. Characters that nothing matches are dropped. Repetitions are bounded or possessive where a
# failed match could make the time quadratic in the length of the text.
_RULES = r"""
      (?P<dropped> '' | -{2,} | [.]{3,} | &(?:quot|nbsp|[mn]dash|md); )
    | (?P<verbatim>
        <NAME(?:[ ]++NAME(?:[ ]*+=[ ]*+(?:"[^"]{0,999}"|'[^']{0,999}'))?)*[ ]*+(?:/[ ]*+)?>     # <unk>  <a href="x">
      | </NAME[ ]*> | <[!?][a-z-][^>]{0,999}>                                                   # </b>  <!-- x -->
      | https?://URL | (?-i:(?:[a-z]{1,64}[.]){1,9}(?:com|net|org|edu))/PATH
      | www[.](?:[^\s"<>|.!?(){},]{1,64}[.]){1,9}[a-z]{2,4}(?!ALNUM|[.!?]LETTER)(?:/PATH)?
      | (?:<|&lt;)?[a-z\d][^\s"<>|(){}]{0,63}@(?:[^\s"<>|().{}]{1,64}[.])*[^\s"<>|().{}]{1,64}>? )   # joe@site.com
    | -[lr][rsc]b-                                        # -LRB- of a caption that is tokenized already
    | [<>]?[:;=][-o*']?(?:[()\\{@|[\]]|(?-i:[DdPpO]))(?!ALNUM)                          # :-)
    | [-^=~<>']_[-^x=~<>'] | x_(?:[-^=~<>']|x(?!ALNUM)) | [(][-^x=~<>'][-_.]?[-^x=~<>'][)]                # ^_^
    | [(]\d{2,4}[)][ ]?\d{3,4}[- ]?\d{3,5}                # (555) 123-4567
    | (?=[a-z.]{0,64}\d)(?:ALNUM+[.]){1,9}(?:FILE_EXTENSIONS)(?![^\s.,])            # 5.jpg
    | \d{1,4}[ -]\d{1,4}/\d{1,4}                          # 1 1/2
    | ph[.]d[.] | (?:ALNUM++(?:[.,]++ALNUM*+){0,9}-){1,9}[a-z](?:[.][a-z])+[.](?!LETTER)(?:-ALNUM+)*   # non-U.S.
    | ALNUM++(?:[.,]++ALNUM*+){1,9}(?:-ALNUM+)+               # 5.5-inch
    | [-+]?(?:\d*(?:[.,:]\d+)+) | [-+]\d+                 # 1,000  10:30, without the "pm" of "10:30pm"  -5
    | (?:can(?=not)|(?:gon|wan)(?=na)|got(?=ta)|(?:gim|lem)(?=me))(?=LETTER{2,3}(?!ALNUM|_|[-/]ALNUM))
    | LETTER+(?=nAPOStEND) | nAPOStEND                    # do n't
    | AUXILIARY                                           # the man 's, they 're
    | 't(?=is|was) | 'em | 'till? | 'cause | '\d\d(?:s|(?!\S)) | 'n(?:'|(?!\S))    # slip 'n' slide
    | y'(?=LETTER) | (?:dunkin|ol|somethin)'(?!ALNUM) | c'mon | ev'ry | nat'l | s'mores | [ce]'e(?:r|st)END
    | LETTER+[aeiouy](?!AUXILIARY)['`](?:[aeiou]|(?-i:[A-Z]))LETTER*   # ma'am
    | (?-i:[A-CE-HJKMNP-XZn])(?!AUXILIARY)['`]LETTER{2,}   # G'day
    | (?:[a-z](?:[.][a-z])+|ABBREVIATIONS|(?=(?-i:[A-Z]))(?:CAPITALIZED))[.](?!LETTER)(?:-ALNUM+)*   # Elm St.
    | [a-z][.](?!LETTER|\s+(?=(?-i:[A-Z]))(?:SENTENCE_STARTS)(?!\S))(?:-ALNUM+)*
    | (?:NUMBERED)[.](?=[ ]?\d)                           # no. 5
    | (?-i:[A-Z]+(?:(?:&(?:amp;)?|[+])[A-Z]+)+) | (?-i:[A-Z]+)[$] | c[+][+] | [cf][#]   # AT&T  US$  C++
    | LETTER*&[aeiou](?:acute|grave|uml);LETTER* | &(?:amp|lt|gt); | &[#]\d+;
    | [a-z\d]+(?:-[a-z]+){0,2}(?:/[a-z\d]+(?:-[a-z]+){0,2}){1,2}    # his/her  1/2-inch
    | LETTERALNUM*(?:[.!?]LETTERALNUM*)+(?:[.](?=[,;:]))?           # site.com
    | (?:anti|pro)-(?!ALNUM) | (?:j|[dl](?!'ALNUM{2}))(?!AUXILIARY)'
    | (?:[dlo]['`](?=ALNUM{2}))?ALNUM+(?:[-_](?:[dlo]['`](?=ALNUM{2}))?ALNUM+)*         # o'clock  t-shirt
      (?:[.](?=[,;:]))?                                   # a full stop before a comma belongs to the word
    | [!?]{2,} | @[a-z_]\w* | [#]LETTER+ | [*]+ | [#]+ | @+ | _+ | << | >> | \\[*] | [$%&()+/<=>[\\\]^{|}~\xa7]
"""
_PARTS = {
    "ABBREVIATIONS": _ABBREVIATIONS,
    "CAPITALIZED": _CAPITALIZED,
    "NUMBERED": _NUMBERED,
    "SENTENCE_STARTS": _SENTENCE_STARTS,
    "FILE_EXTENSIONS": _FILE_EXTENSIONS,
    "NAME": r"[a-z][\w:.-]*",
    "URL": r"""[^\s"<>|(){}]+[^\s"<>|.!?(){},-]""",
    "PATH": r"""[^\s"<>|()]+[^\s"<>|.!?(){},-]""",
    "AUXILIARY": "APOS(?:s|m|d|ll|re|ve)(?!LETTER|_)",
    "APOS": "(?:'|&apos;)",
    "END": "(?!ALNUM|_)",
    "LETTER": "[a-z\xe9]",
    "ALNUM": r"[a-z\d\xe9]",
}


def _compile(rules: str) -> re.Pattern[str]:
    for name, pattern in _PARTS.items():
        rules = rules.replace(name, pattern)
    return re.compile(rules, re.VERBOSE | re.IGNORECASE | re.ASCII)


_TOKEN = _compile(_RULES)
_CROSSES_SPACE = re.compile(
    r"<[a-z/!?][^<>\s]*\s|\(\d{2,4}\)\s\d|\w[.]\s\d|\b[a-z][.]\s+(?-i:[A-Z])|\d\s\d{1,4}/\d", re.IGNORECASE
)
"""May match where a rule matches a space or looks beyond one."""
# Alphabetic pieces that a rule may split or keep a full stop with; any other one is a single token.
_NEEDS_RULES = frozenset(f"{_ABBREVIATIONS}|{_CAPITALIZED}".split("|")).union(
    ascii_lowercase, {"cannot", "gonna", "wanna", "gotta", "gimme", "lemme"}
)
_SPELLINGS = {
    "(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-", "&lt;": "<", "&gt;": ">",
}  # fmt: skip
_PIECE = re.compile(r"\S+")


def ptb_tokens(text: str) -> Iterator[Token]:
    """Tokenize a text, or a piece of it without spaces.

    >>> [token.text for token in ptb_tokens("(don't!)")]
    ['-lrb-', 'do', "n't", '-rrb-']
    """
    for match in _TOKEN.finditer(shape(text)):
        if match.lastgroup != "dropped":
            # A loop only for tokens with spaces.
            for part in _PIECE.finditer(text, *match.span()):
                token = _spell(part[0], verbatim=match.lastgroup == "verbatim")
                if token:
                    yield Token(token, *part.span())


def _spell(token: str, *, verbatim: bool) -> str:
    """Spell a token as the Java tool does."""
    token = token.lower()
    if not token.isascii():
        token = token.translate(REPLACEMENTS)
    if token.isalnum() or verbatim:
        return token
    token = token.replace("&amp;", "&").replace("&apos;", "'")
    if len(token) > 1:  # an emoticon or a telephone number
        token = token.replace("(", "-lrb-").replace(")", "-rrb-")
    return _SPELLINGS.get(token, token)


def ptb_texts(piece: str) -> tuple[str, ...]:
    """Return the texts of ``ptb_tokens``, with a fast path for letters followed by at most one punctuation mark.

    >>> ptb_texts("street."), ptb_texts("st.")
    (('street',), ('st.',))
    """
    letters = piece[:-1] if piece.endswith((".", ",")) else piece
    if letters.isascii() and letters.isalpha():
        word = letters.lower()
        if word not in _NEEDS_RULES:
            return (word,)
    return tuple([token.text for token in ptb_tokens(piece)])


def split_pieces(text: str) -> list[str]:
    """Split a text at whitespace into pieces to tokenize; a text in which a token may cross a space is one piece.

    >>> split_pieces("a dog."), split_pieces("box no. 5")
    (['a', 'dog.'], ['box no. 5'])
    """
    return [text] if _crosses_space(text) else text.split()


def _crosses_space(text: str) -> bool:
    # Fast for nearly all captions: the characters that begin such a token are rare, and a full stop is at the end.
    if text.isascii() and "<" not in text and "(" not in text and "/" not in text and "." not in text[:-2]:
        return False
    return _CROSSES_SPACE.search(text) is not None


_MAX_MEMO_SIZE = 1 << 17

Result = TypeVar("Result")


class _Memo(dict[str, tuple[Result, ...]], Generic[Result]):
    """Memoized tokenization of pieces; captions repeat most of theirs."""

    def __init__(self, function: Callable[[str], tuple[Result, ...]]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, piece: str) -> tuple[Result, ...]:
        if len(self) >= _MAX_MEMO_SIZE:
            self.clear()
        self[piece] = result = self._function(piece)
        return result


_tokens_of_piece = _Memo(lambda piece: tuple(ptb_tokens(piece)))
_texts_of_piece = _Memo(ptb_texts)


def clear_memo() -> None:
    """Forget memoized pieces."""
    _tokens_of_piece.clear()
    _texts_of_piece.clear()


def tokenize(text: str) -> list[str]:
    """Tokenize a caption.

    >>> tokenize("A dog's <unk>, and a cat.")
    ['a', 'dog', "'s", '<unk>', 'and', 'a', 'cat']
    """
    return list(chain.from_iterable(map(_texts_of_piece.__getitem__, [text] if _crosses_space(text) else text.split())))


def tokenize_with_spans(text: str) -> list[Token]:
    """Tokenize a caption and keep the character span of each token in it.

    A span covers the original characters, also where the token's text differs: "(" becomes "-lrb-".

    >>> tokenize_with_spans("She can't.")
    [Token(text='she', start=0, end=3), Token(text='ca', start=4, end=6), Token(text="n't", start=6, end=9)]
    """
    if _crosses_space(text):
        return list(ptb_tokens(text))
    return [
        Token(token, piece.start() + start, piece.start() + end)
        for piece in _PIECE.finditer(text)
        for token, start, end in _tokens_of_piece[piece[0]]
    ]


def tokenize_pieces(pieces: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Tokenize each piece of ``split_pieces``.

    >>> list(tokenize_pieces(["dog's", "ball,"]))
    [('dog', "'s"), ('ball',)]
    """
    return map(_texts_of_piece.__getitem__, pieces)
