"""Closed word classes of captions: what may end a noun chunk, and what a phrase still waits for."""

from sct.language.chunk_span import DETERMINERS

HEAD_PRONOUNS = frozenset({
    "someone", "somebody", "something", "everyone", "everything", "nothing", "it", "him", "them", "himself", "herself",
    "itself", "themselves", "other", "others",
})  # fmt: skip
"""Pronouns that stand for a noun chunk; "other" as in "each other"."""
NEEDS_NOUN = DETERMINERS | {
    "about", "above", "against", "alongside", "among", "amongst", "amidst", "at", "atop", "behind", "beneath", "beside",
    "between", "by", "during", "for", "from", "front", "into", "like", "my", "near", "of", "on", "onto", "our",
    "through", "toward", "towards", "under", "underneath", "upon", "with", "without", "your", "'s",
}  # fmt: skip
"""Determiners, prepositions and others that a caption cannot end with, nor without a noun after them."""
NEEDS_WORD = frozenset({
    "after", "and", "are", "as", "be", "been", "before", "being", "but", "has", "have", "he", "in", "is", "next", "or",
    "she", "than", "they", "to", "very", "was", "wearing", "wears", "were", "where", "which", "while",
    "whilst", "who", "whose",
})  # fmt: skip
"""Conjunctions, auxiliaries and others that any word may follow ("a girl in pink"), but that end no caption.

"down", "up", "over" and the like are in neither set: "a man looks down".
"""
SINGULAR_VERBS = frozenset({"is", "was", "has"})
SINGULAR_DETERMINERS = frozenset({"a", "an", "another", "each", "one", "this", "that"})
NUMBERS = {
    "two": 2, "both": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
}  # fmt: skip
"""Numbers of more than one thing."""
PLURAL_DETERMINERS = frozenset({
    *NUMBERS, "several", "many", "these", "those", "few", "various", "multiple", "are", "were",
})  # fmt: skip
"""Words that do not go with a singular noun: numbers, quantifiers, and the verbs of a plural subject."""

UNCOUNTABLE_NOUNS = frozenset({
    "air", "asphalt", "baggage", "bread", "broccoli", "butter", "cardboard", "cheese", "clothing", "concrete", "dirt",
    "equipment", "fog", "foliage", "food", "fur", "furniture", "gear", "graffiti", "grass", "gravel", "greenery",
    "hair", "hay", "ice", "jewelry", "lettuce", "luggage", "machinery", "makeup", "meat", "mud", "music", "paint",
    "paper", "pasta", "pavement", "plastic", "produce", "rain", "rice", "sand", "seafood", "smoke", "snow", "soccer",
    "sunlight", "tennis", "traffic", "underwear", "vegetation", "water", "wood",
})  # fmt: skip
"""Nouns without a singular determiner, unless another noun follows ("a water bottle")."""


def starts_with_vowel(word: str) -> bool:
    """Whether "an" rather than "a" precedes a word, by its spelling.

    >>> [starts_with_vowel(word) for word in ("umbrella", "uniform", "horse", "one-armed", "elephant")]
    [True, False, False, False, True]
    """
    return word.startswith(tuple("aeiou")) and not word.startswith(("uni", "use", "eu", "one"))
