import numpy as np

from sct.data.corpus_words import build_noun_table, class_nouns, tag_templates, word_tags
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table
from sct.data.table_join import merge_tables
from sct.language.word_vectors import WordVectors
from sct.regions import Box, Region


def ungrounded_image(name: str, split: str, *texts: str) -> AnnotatedImage:
    captions = tuple(Caption(text, tuple(text.split()), (None,) * len(text.split()), ()) for text in texts)
    return AnnotatedImage(image_id=name, split=split, width=9, height=9, regions=(), captions=captions)


def test_noun_table_of_a_dataset():
    texts = ["a dog runs in the grass", "the dog sleeps", "a woman walks her dog in grass"]
    table, _ = merge_tables([build_table([ungrounded_image("1", "train", *texts)])])
    vectors = WordVectors("two numbers", {"dog": 0, "grass": 1}, np.array([[3.0, 4.0], [1.0, 0.0]], np.float32))
    nouns = build_noun_table(table, vectors)
    assert nouns.nouns == ("dog", "grass", "woman")
    assert nouns.units.tolist() == [[np.float32(0.6), np.float32(0.8)], [1.0, 0.0], [0.0, 0.0]]


def image_with_two_chunks(name: str, split: str, *texts: str) -> AnnotatedImage:
    """Captions of two chunks, a person and a dog, separated by "with"."""
    captions = []
    for text in texts:
        words = tuple(text.split())
        middle = words.index("with")
        labels = tuple(0 if index < middle else 1 if index > middle else None for index in range(len(words)))
        captions.append(Caption(text, words, labels, (Chunk("person", (0,)), Chunk("dog", (1,)))))
    regions = (Region(Box(0, 0, 1, 1), "person"), Region(Box(0, 0, 1, 2), "dog"))
    return AnnotatedImage(image_id=name, split=split, width=9, height=9, regions=regions, captions=tuple(captions))


def nouns_by_class(**settings) -> dict[str, list[str]]:
    images = [
        image_with_two_chunks("1", "train", "a man with two dogs", "a young man with a dog", "men with the dog"),
        image_with_two_chunks("2", "val", "a lady with a puppy"),
    ]
    table, all_words = merge_tables([build_table(images)])
    vocabulary = all_words.with_min_count(1)
    found = class_nouns(table, "train", vocabulary, **settings)
    return {name: vocabulary.decode(ids) for name, ids in zip(table.classes, found, strict=True)}


def test_class_nouns_are_the_last_words_of_chunks_by_frequency():
    assert nouns_by_class(min_count=1) == {"dog": ["dog", "dogs"], "person": ["man", "men"]}


def test_class_nouns_are_limited_by_frequency_and_number():
    assert nouns_by_class(min_count=2) == {"dog": ["dog"], "person": ["man"]}
    assert nouns_by_class(min_count=1, max_nouns=1) == {"dog": ["dog"], "person": ["man"]}


class DictionaryTagger:
    """Tags words by a dictionary; "orange" is a noun at the end of a caption and an adjective elsewhere."""

    def tags(self, captions):
        letters = {"a": "D", "dog": "N", "cat": "N", "sleeps": "V", "eats": "V"}
        for words in captions:
            yield "".join(
                letters[word] if word != "orange" else "A" if words[-1] != "orange" else "N" for word in words
            )


TRAINING_TEXTS = ("a dog sleeps", "a cat sleeps", "a orange cat eats", "a orange dog sleeps")
TABLE, ALL_WORDS = merge_tables(
    [
        build_table(
            [
                ungrounded_image(
                    "1", "train", "a dog sleeps", "a cat sleeps", "a orange cat eats", "a orange dog sleeps"
                ),
                ungrounded_image("2", "train", "a cat eats a orange"),
                ungrounded_image("3", "val", "dog dog dog dog dog"),
            ]
        )
    ]
)
VOCABULARY = ALL_WORDS.with_min_count(1)


def test_words_have_their_most_frequent_tag_and_templates_are_ranked():
    tags = word_tags(TABLE, "train", VOCABULARY, tagger=DictionaryTagger())
    by_word = dict(zip(VOCABULARY.words, tags, strict=True))
    assert [by_word[word] for word in ("a", "dog", "orange", "eats")] == ["D", "N", "A", "V"]
    assert tags[:4] == "X..."
    assert tag_templates(TABLE, "train", VOCABULARY, tags) == ("DANV", "DNV", "DNVDA")


def test_templates_are_limited_in_number_and_length():
    tags = word_tags(TABLE, "train", VOCABULARY, tagger=DictionaryTagger())
    assert tag_templates(TABLE, "train", VOCABULARY, tags, max_templates=1, max_length=2) == ("DN",)
