import numpy as np
import pytest

from sct.data.examples import Examples, examples_from_samples, make_examples
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.samples import make_samples
from sct.data.table import Table, build_table, merge_tables
from sct.errors import InputError
from sct.language.shift_targets import fill_regions, shift_targets
from sct.language.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from sct.regions import Box, Region

LETTERS = "abcdefghij"


def image_of(
    *captions: Caption, num_regions: int = 3, scores: tuple[float, ...] = (), name: str = "x"
) -> AnnotatedImage:
    regions = [
        Region(Box(place, 0.0, place + 1.0, 1.0), "dog", scores[place] if scores else None)
        for place in range(num_regions)
    ]
    return AnnotatedImage(
        image_id=name, split="train", width=9, height=1, regions=tuple(regions), captions=tuple(captions)
    )


def caption_of(labels: list[int | None], sets: list[tuple[int, ...]], letters: str = LETTERS) -> Caption:
    words = tuple(letters[place % len(letters)] for place in range(len(labels)))
    return Caption(" ".join(words), words, tuple(labels), tuple(Chunk("dog", members) for members in sets))


def table_of(*images: AnnotatedImage) -> tuple[Table, Vocabulary]:
    return merge_tables([build_table(images)])


def sets_of(examples: Examples, row: int) -> list[list[int]]:
    return [
        examples.members[start : start + size].tolist()
        for start, size in zip(examples.set_starts[row], examples.set_sizes[row], strict=True)
    ][: examples.num_slots[row]]


def test_a_caption_from_begin_to_end():
    table, vocabulary = table_of(image_of(caption_of([0, 0, None, 1, None], [(0,), (1, 2)])))
    examples = make_examples(table, "train", vocabulary, max_length=8)
    said = vocabulary.encode(list("abcde"))
    assert examples.words.tolist() == [[BOS, *said, EOS, PAD]]
    assert examples.slots[0, :6].tolist() == [0, 0, 1, 1, 1, 1]  # "c" leads up to the second set; EOS stays there
    assert examples.shifts.tolist() == [[0, 1, 0, 0, 0, 0, 0]]
    assert sets_of(examples, 0) == [[0], [1, 2]]


@pytest.mark.parametrize(
    ("num_words", "kept"),
    [
        pytest.param(2, [BOS, UNK, UNK, EOS, PAD], id="shorter"),
        pytest.param(3, [BOS, UNK, UNK, UNK, EOS], id="just right"),
        pytest.param(6, [BOS, UNK, UNK, UNK, EOS], id="cut"),
    ],
)
def test_a_longer_caption_is_cut_and_a_rare_word_unknown(num_words, kept):
    table, vocabulary = table_of(image_of(caption_of([0] * num_words, [(0,)])))
    examples = make_examples(table, "train", vocabulary.with_min_count(2), max_length=5)
    assert examples.words.tolist() == [kept]


def test_by_default_eighteen_words_stay_as_in_the_authors_code():
    table, vocabulary = table_of(image_of(caption_of([0] * 19, [(0,)])))
    examples = make_examples(table, "train", vocabulary)
    assert (examples.words.shape, examples.num_words.tolist()) == ((1, 20), [18])
    assert int(examples.words[0, -1]) == EOS


@pytest.mark.parametrize(
    ("scores", "likeliest"),
    [pytest.param((), [0, 1], id="no scores"), pytest.param((0.1, 0.3, 0.2), [1, 2], id="by score")],
)
def test_a_chunk_without_region_looks_at_the_likeliest(scores, likeliest):
    table, vocabulary = table_of(image_of(caption_of([0, 1], [(2,), ()]), scores=scores))
    assert sets_of(make_examples(table, "train", vocabulary, max_members=2), 0) == [[2], likeliest]


def test_words_after_the_last_chunk_may_be_a_set_of_their_own():
    table, vocabulary = table_of(image_of(caption_of([0, None], [(2,)])))
    examples = make_examples(table, "train", vocabulary, tail="likeliest")
    assert (sets_of(examples, 0), examples.shifts[0, :2].tolist()) == ([[2], [0, 1, 2]], [1, 0])


@pytest.mark.parametrize(
    ("labels", "slots_of_words", "shifts"),
    [
        pytest.param([0, 0, 1], [0, 0, 1, 2], [0, 1, 1, 0], id="the EOS alone comes after the last chunk"),
        pytest.param([0, None, 1, None, None], [0, 1, 1, 2, 2, 2], [1, 0, 1, 0, 0, 0], id="words come after it"),
    ],
)
def test_the_end_of_the_control_may_be_a_slot_without_a_set(labels, slots_of_words, shifts):
    table, vocabulary = table_of(image_of(caption_of(labels, [(2,), (0, 1)])))
    examples = make_examples(table, "train", vocabulary, tail="end")
    assert sets_of(examples, 0) == [[2], [0, 1]]
    assert examples.slots[0].tolist() == slots_of_words + [2] * (19 - len(slots_of_words))
    assert examples.shifts[0].tolist() == shifts + [0] * (19 - len(shifts))


@pytest.mark.parametrize(
    ("labels", "slots_of_words", "shifts"),
    [
        pytest.param([0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 0, 0], id="in a chunk"),
        pytest.param([0, 0, None, 1], [0, 0, 1, 1], [0, 1, 0, 0], id="on the way to a chunk"),
        pytest.param([0, 1, 1, None], [0, 1, 1, 2], [1, 0, 1, 0], id="after the last chunk"),
    ],
)
def test_a_control_is_not_over_where_its_caption_is_cut_before_the_last_chunk(labels, slots_of_words, shifts):
    table, vocabulary = table_of(image_of(caption_of(labels, [(2,), (0, 1)])))
    examples = make_examples(table, "train", vocabulary, tail="end", max_length=5)
    assert (examples.slots[0].tolist(), examples.shifts[0].tolist()) == (slots_of_words, shifts)


@pytest.mark.parametrize("max_length", [5, 20], ids=["cut", "whole"])
def test_too_many_sets_end_too(max_length):
    table, vocabulary = table_of(image_of(caption_of([0, 1, 2, None], [(0,), (1,), (2,)])))
    examples = make_examples(table, "train", vocabulary, max_slots=2, max_length=max_length, tail="end")
    assert (sets_of(examples, 0), examples.slots[0, :4].tolist()) == ([[0], [1]], [0, 1, 1, 2])
    assert examples.shifts[0, :4].tolist() == [1, 0, 1, 0]


def test_too_many_sets_end_on_the_last_slot():
    table, vocabulary = table_of(image_of(caption_of([0, 1, 2], [(0,), (1,), (2,)])))
    examples = make_examples(table, "train", vocabulary, max_slots=2)
    assert (sets_of(examples, 0), examples.slots[0, :3].tolist()) == ([[0], [1]], [0, 1, 1])
    assert examples.shifts[0, :3].tolist() == [1, 0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_says_the_same_as_one_caption_at_a_time(seed):
    rng = np.random.default_rng(seed)

    def random_caption() -> Caption:
        num_chunks = int(rng.integers(1, 5))
        labels: list[int | None] = []
        for chunk in range(num_chunks):
            labels += [None] * int(rng.integers(0, 3)) + [chunk] * int(rng.integers(1, 3))
        labels += [None] * int(rng.integers(0, 3))
        return caption_of(labels, [tuple(range(int(rng.integers(0, 4)))) for _ in range(num_chunks)])

    images = [image_of(*(random_caption() for _ in range(3)), name=f"{number}") for number in range(4)]
    table, vocabulary = table_of(*images)
    examples = make_examples(table, "train", vocabulary, max_length=30)
    for row in range(len(examples)):
        image = images[int(examples.image[row])]
        caption = image.captions[row % 3]
        length = len(caption.words)
        assert examples.num_words[row] == length
        assert examples.slots[row, :length].tolist() == fill_regions(caption.chunk_of_word)
        assert examples.shifts[row, :length].tolist() == shift_targets(caption.chunk_of_word)
        first = 3 * int(examples.image[row])
        expected = [[first + m for m in chunk.regions or range(3)] for chunk in caption.chunks or ()]
        assert sets_of(examples, row) == expected


def test_refuses_a_split_that_is_not_there():
    table, vocabulary = table_of(image_of(caption_of([0], [(0,)])))
    with pytest.raises(InputError, match="no split 'test'"):
        make_examples(table, "test", vocabulary)


@pytest.mark.parametrize(
    ("captions", "expected"),
    [
        pytest.param([], [], id="no sample"),
        pytest.param([caption_of([0, None, 0], [(2,)])], [[[2], [2]]], id="two mentions of one chunk"),
        pytest.param(
            [caption_of([*range(30)], [(number % 3,) for number in range(30)]), caption_of([0], [(1, 0)])],
            [[[number % 3] for number in range(30)], [[0, 1]]],
            id="more sets and words than a training example keeps",
        ),
    ],
)
def test_samples_keep_their_whole_control(captions, expected):
    first = image_of(caption_of([0], [(0,)]), name="another, whose regions come first")
    table, _ = table_of(first, image_of(*captions))
    samples = [sample for sample in make_samples(table, "train") if sample.image == 1]
    examples = examples_from_samples(table, samples)
    assert [sets_of(examples, row) for row in range(len(samples))] == [
        [[3 + member for member in members] for members in sets] for sets in expected
    ]
    assert examples.caption.tolist() == [sample.captions[0] for sample in samples]
    assert examples.image.tolist() == [1] * len(samples)


def test_a_sample_shows_no_more_regions_than_evaluation():
    table, _ = table_of(image_of(caption_of([0], [tuple(range(29, -1, -1))]), num_regions=30))
    assert sets_of(examples_from_samples(table, make_samples(table, "train")), 0) == [list(range(20))]
