import numpy as np

from sct.data.corpus_words import build_noun_table
from sct.data.records import AnnotatedImage, Caption
from sct.data.table import build_table, merge_tables
from sct.language.word_vectors import WordVectors


def test_nouns_of_a_dataset():
    texts = ["a dog runs in the grass", "the dog sleeps", "a woman walks her dog in grass"]
    captions = tuple(Caption(text, tuple(text.split()), (None,) * len(text.split()), ()) for text in texts)
    image = AnnotatedImage(image_id="1", split="train", width=1, height=1, regions=(), captions=captions)
    table, _ = merge_tables([build_table([image])])
    vectors = WordVectors("two numbers", {"dog": 0, "grass": 1}, np.array([[3.0, 4.0], [1.0, 0.0]], np.float32))
    nouns = build_noun_table(table, vectors)
    assert nouns.nouns == ("dog", "grass", "woman")
    assert nouns.units.tolist() == [[np.float32(0.6), np.float32(0.8)], [1.0, 0.0], [0.0, 0.0]]
