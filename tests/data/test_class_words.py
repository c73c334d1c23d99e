from sct.data.corpus_words import class_nouns
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table, merge_tables
from sct.regions import Box, Region


def image(name: str, split: str, *texts: str) -> AnnotatedImage:
    """Captions of two chunks, a person and a dog, around the word in the middle."""
    captions = []
    for text in texts:
        words = tuple(text.split())
        middle = words.index("with")
        labels = tuple(0 if place < middle else 1 if place > middle else None for place in range(len(words)))
        captions.append(Caption(text, words, labels, (Chunk("person", (0,)), Chunk("dog", (1,)))))
    regions = (Region(Box(0, 0, 1, 1), "person"), Region(Box(0, 0, 1, 2), "dog"))
    return AnnotatedImage(image_id=name, split=split, width=9, height=9, regions=regions, captions=tuple(captions))


TABLE, VOCABULARY = merge_tables(
    [
        build_table(
            [
                image("1", "train", "a man with two dogs", "a young man with a dog", "men with the dog"),
                image("2", "val", "a lady with a puppy"),
            ]
        )
    ]
)


def named(**settings) -> dict[str, list[str]]:
    found = class_nouns(TABLE, "train", VOCABULARY.with_min_count(1), **settings)
    return {
        name: [VOCABULARY.with_min_count(1).words[word] for word in words]
        for name, words in zip(TABLE.classes, found, strict=True)
    }


def test_last_words_of_chunks_are_words_for_their_class_the_commonest_first():
    assert named(min_count=1) == {"dog": ["dog", "dogs"], "person": ["man", "men"]}


def test_rare_words_and_those_beyond_the_most_are_left_out():
    assert named(min_count=2) == {"dog": ["dog"], "person": ["man"]}
    assert named(min_count=1, max_nouns=1) == {"dog": ["dog"], "person": ["man"]}
