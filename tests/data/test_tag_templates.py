from sct.data.corpus_words import tag_templates, word_tags
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.table import build_table, merge_tables
from sct.regions import Box, Region


class Lexicon:
    """Tags by a list; "orange" is what stands before it that says what it is."""

    def tags(self, captions):
        letters = {"a": "D", "dog": "N", "cat": "N", "sleeps": "V", "eats": "V"}
        for words in captions:
            yield "".join(
                letters[word] if word != "orange" else "A" if words[-1] != "orange" else "N" for word in words
            )


def image(name: str, split: str, *texts: str) -> AnnotatedImage:
    captions = [
        Caption(text, tuple(text.split()), (None,) * len(text.split()), (Chunk("dog", (0,)),)) for text in texts
    ]
    regions = (Region(Box(0, 0, 1, 1), "dog"),)
    return AnnotatedImage(image_id=name, split=split, width=9, height=9, regions=regions, captions=tuple(captions))


TABLE, VOCABULARY = merge_tables(
    [
        build_table(
            [
                image("1", "train", "a dog sleeps", "a cat sleeps", "a orange cat eats", "a orange dog sleeps"),
                image("2", "train", "a cat eats a orange"),
                image("3", "val", "dog dog dog dog dog"),
            ]
        )
    ]
)


def test_words_have_their_usual_tag_and_the_commonest_sequences_come_first():
    vocabulary = VOCABULARY.with_min_count(1)
    tags = word_tags(TABLE, "train", vocabulary, tagger=Lexicon())
    by_word = dict(zip(vocabulary.words, tags, strict=True))
    assert [by_word[word] for word in ("a", "dog", "orange", "eats")] == ["D", "N", "A", "V"]
    assert tags[:4] == "X..."
    assert tag_templates(TABLE, "train", vocabulary, tags) == ("DANV", "DNV", "DNVDA")


def test_few_and_short_templates_where_these_are_wanted():
    vocabulary = VOCABULARY.with_min_count(1)
    tags = word_tags(TABLE, "train", vocabulary, tagger=Lexicon())
    assert tag_templates(TABLE, "train", vocabulary, tags, max_templates=1, max_length=2) == ("DN",)
