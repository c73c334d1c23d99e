"""Singulars and plurals of nouns by rule: good for captions, and some forms it makes are no words."""

from collections.abc import Container

IRREGULAR_PLURALS = {
    "people": "person",
    "children": "child",
    "men": "man",
    "women": "woman",
    "mice": "mouse",
    "feet": "foot",
    "geese": "goose",
    "teeth": "tooth",
}
_SINGULAR_ENDINGS = ("ss", "us", "is")
_SINGULARS_IN_S = frozenset({"tennis", "bus", "gas", "lens"})
_PLURAL_ONLY = frozenset({
    "pants", "shorts", "jeans", "sunglasses", "glasses", "clothes", "goggles", "trunks", "stairs", "scissors", "woods",
    "police", "twins", "others",
})  # fmt: skip

INVARIANT_NOUNS = frozenset({
    "sheep", "deer", "fish", "moose", "elk", "bison", "buffalo", "aircraft", "salmon", "shrimp", "offspring", "dice",
})  # fmt: skip
"""Nouns whose plural may be the same as the singular."""


def base_forms(noun: str) -> tuple[str, ...]:
    """The noun and its possible singulars; some of them are not words.

    >>> base_forms("buses"), base_forms("people")
    (('buses', 'buse', 'bus'), ('people', 'person'))
    """
    forms = [noun]
    if noun in IRREGULAR_PLURALS:
        forms.append(IRREGULAR_PLURALS[noun])
    if noun.endswith("men"):
        forms.append(f"{noun[:-2]}an")
    for ending, singulars in (("s", [""]), ("es", [""]), ("ies", ["y"]), ("ves", ["f", "fe"])):
        if noun.endswith(ending) and len(noun) > len(ending) + 1:
            forms += [noun.removesuffix(ending) + singular for singular in singulars]
    return tuple(dict.fromkeys(forms))


def plural_forms(noun: str) -> tuple[str, ...]:
    """Possible plurals of a singular noun; some of them are not words.

    >>> plural_forms("child"), plural_forms("puppy"), plural_forms("horse")
    (('children', 'childs'), ('puppys', 'puppies'), ('horses',))
    """
    forms = [plural for plural, singular in IRREGULAR_PLURALS.items() if singular == noun]
    if noun.endswith("man"):
        forms.append(f"{noun[:-2]}en")
    forms.append(f"{noun}s")
    if noun.endswith(("s", "x", "z", "ch", "sh", "o")):
        forms.append(f"{noun}es")
    if noun.endswith("y"):
        forms.append(f"{noun[:-1]}ies")
    if noun.endswith(("f", "fe")):
        forms.append(f"{noun.removesuffix('e').removesuffix('f')}ves")
    return tuple(dict.fromkeys(forms))


def is_plural(noun: str) -> bool:
    """Whether a noun is plural, by its ending and a list.

    >>> [is_plural(noun) for noun in ("horse", "horses", "people", "grass", "tennis", "fireman", "firemen")]
    [False, True, True, False, False, False, True]
    """
    if noun in IRREGULAR_PLURALS or noun in _PLURAL_ONLY or (noun.endswith("men") and len(noun) > 4):
        return True
    return noun.endswith("s") and not noun.endswith(_SINGULAR_ENDINGS) and noun not in _SINGULARS_IN_S


def inflections(noun: str, words: Container[str]) -> tuple[str, ...]:
    """The noun, its singular and its plural, as far as they are among ``words``; the noun itself comes first.

    >>> inflections("dogs", {"dog", "dogs", "do"}), inflections("grass", {"grass", "gras"})
    (('dogs', 'dog'), ('grass',))
    """
    singulars = base_forms(noun) if is_plural(noun) else (noun,)
    forms = (noun, *singulars, *(plural for singular in singulars for plural in plural_forms(singular)))
    return tuple(form for form in dict.fromkeys(forms) if form in words)
