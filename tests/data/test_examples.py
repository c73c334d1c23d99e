import numpy as np
import pytest

from sct.data.examples import (
    Examples,
    examples_from_samples,
    make_examples,
    pooled_control_examples,
    whole_image_examples,
)
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.samples import MAX_WHOLE_IMAGE_REGIONS, make_samples, whole_image_regions
from sct.data.table import Table, build_table
from sct.data.table_join import merge_tables
from sct.errors import InputError
from sct.language.shift_targets import fill_regions, shift_targets
from sct.language.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from sct.regions import Box, Region

LETTERS = "abcdefghij"


def make_image(
    *captions: Caption, num_regions: int = 3, scores: tuple[float, ...] = (), name: str = "x"
) -> AnnotatedImage:
    regions = [
        Region(Box(index, 0.0, index + 1.0, 1.0), "dog", scores[index] if scores else None)
        for index in range(num_regions)
    ]
    return AnnotatedImage(
        image_id=name, split="train", width=9, height=1, regions=tuple(regions), captions=tuple(captions)
    )


def make_caption(labels: list[int | None], sets: list[tuple[int, ...]], letters: str = LETTERS) -> Caption:
    words = tuple(letters[index % len(letters)] for index in range(len(labels)))
    return Caption(" ".join(words), words, tuple(labels), tuple(Chunk("dog", members) for members in sets))


def make_table(*images: AnnotatedImage) -> tuple[Table, Vocabulary]:
    return merge_tables([build_table(images)])


def region_sets(examples: Examples, row: int) -> list[list[int]]:
    return [
        examples.members[start : start + size].tolist()
        for start, size in zip(examples.set_starts[row], examples.set_sizes[row], strict=True)
    ][: examples.num_slots[row]]


def test_words_slots_and_shifts_of_a_caption():
    table, vocabulary = make_table(make_image(make_caption([0, 0, None, 1, None], [(0,), (1, 2)])))
    examples = make_examples(table, "train", vocabulary, max_length=8)
    words = vocabulary.encode(list("abcde"))
    assert examples.words.tolist() == [[BOS, *words, EOS, PAD]]
    assert examples.slots[0, :6].tolist() == [0, 0, 1, 1, 1, 1]  # "c" precedes the second chunk; EOS stays on its set
    assert examples.shifts.tolist() == [[0, 1, 0, 0, 0, 0, 0]]
    assert region_sets(examples, 0) == [[0], [1, 2]]


@pytest.mark.parametrize(
    ("num_words", "expected"),
    [
        pytest.param(2, [BOS, UNK, UNK, EOS, PAD], id="shorter"),
        pytest.param(3, [BOS, UNK, UNK, UNK, EOS], id="exact fit"),
        pytest.param(6, [BOS, UNK, UNK, UNK, EOS], id="truncated"),
    ],
)
def test_long_captions_are_truncated_and_rare_words_become_unk(num_words, expected):
    table, vocabulary = make_table(make_image(make_caption([0] * num_words, [(0,)])))
    examples = make_examples(table, "train", vocabulary.with_min_count(2), max_length=5)
    assert examples.words.tolist() == [expected]


def test_the_default_keeps_eighteen_words_as_in_the_authors_code():
    table, vocabulary = make_table(make_image(make_caption([0] * 19, [(0,)])))
    examples = make_examples(table, "train", vocabulary)
    assert (examples.words.shape, examples.num_words.tolist()) == ((1, 20), [18])
    assert int(examples.words[0, -1]) == EOS


@pytest.mark.parametrize(
    ("scores", "top_scoring"),
    [pytest.param((), [0, 1], id="no scores"), pytest.param((0.1, 0.3, 0.2), [1, 2], id="by score")],
)
def test_a_chunk_without_a_region_takes_the_top_scoring_regions(scores, top_scoring):
    table, vocabulary = make_table(make_image(make_caption([0, 1], [(2,), ()]), scores=scores))
    assert region_sets(make_examples(table, "train", vocabulary, max_members=2), 0) == [[2], top_scoring]


def test_tail_words_on_the_top_scoring_regions():
    table, vocabulary = make_table(make_image(make_caption([0, None], [(2,)])))
    examples = make_examples(table, "train", vocabulary, tail="top_scoring")
    assert (region_sets(examples, 0), examples.shifts[0, :2].tolist()) == ([[2], [0, 1, 2]], [1, 0])


@pytest.mark.parametrize(
    ("labels", "slots", "shifts"),
    [
        pytest.param([0, 0, 1], [0, 0, 1, 2], [0, 1, 1, 0], id="only EOS after the last chunk"),
        pytest.param([0, None, 1, None, None], [0, 1, 1, 2, 2, 2], [1, 0, 1, 0, 0, 0], id="words after the last chunk"),
    ],
)
def test_tail_words_on_the_empty_end_slot(labels, slots, shifts):
    table, vocabulary = make_table(make_image(make_caption(labels, [(2,), (0, 1)])))
    examples = make_examples(table, "train", vocabulary, tail="end")
    assert region_sets(examples, 0) == [[2], [0, 1]]
    assert examples.slots[0].tolist() == slots + [2] * (19 - len(slots))
    assert examples.shifts[0].tolist() == shifts + [0] * (19 - len(shifts))


@pytest.mark.parametrize(
    ("labels", "slots", "shifts"),
    [
        pytest.param([0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 0], id="only EOS after the last chunk"),
        pytest.param([0, None, 1, None, None], [0, 1, 1, 1, 1, 1], [1, 0, 1, 0, 0, 0], id="words after the last chunk"),
        pytest.param([None, 0], [0, 0, 0], [0, 1, 0], id="one chunk"),
    ],
)
def test_gate_targets_of_the_paper_shift_after_every_chunk_and_clamp_the_pointer(labels, slots, shifts):
    table, vocabulary = make_table(
        make_image(make_caption(labels, [(2,), (0, 1)][: max(filter(None, labels), default=0) + 1]))
    )
    examples = make_examples(table, "train", vocabulary, gate_targets="every_chunk")
    assert examples.slots[0, : len(slots)].tolist() == slots
    assert examples.shifts[0].tolist() == shifts + [0] * (19 - len(shifts))


@pytest.mark.parametrize(
    ("labels", "shifts"),
    [
        pytest.param([0, 0, 1, 1], [0, 1, 0, 0], id="in the last chunk"),
        pytest.param([0, 1, 1, 2], [1, 0, 1, 0], id="before another chunk"),
        pytest.param([0, 1, 1, None], [1, 0, 1, 0], id="after the last chunk"),
    ],
)
def test_gate_targets_of_a_truncated_caption(labels, shifts):
    table, vocabulary = make_table(
        make_image(make_caption(labels, [(2,), (0,), (1,)][: max(filter(None, labels)) + 1]))
    )
    examples = make_examples(table, "train", vocabulary, gate_targets="every_chunk", max_length=5)
    assert examples.shifts[0].tolist() == shifts


def test_a_chunk_without_a_region_is_empty_if_it_is_not_filled():
    table, vocabulary = make_table(make_image(make_caption([0, 1], [(2,), ()]), make_caption([0, None], [()])))
    examples = make_examples(table, "train", vocabulary, fill_empty_sets=False)
    assert [region_sets(examples, row) for row in range(2)] == [[[2], []], [[]]]
    pooled = pooled_control_examples(examples)
    assert [region_sets(pooled, row) for row in range(2)] == [[[2]], [[]]]


def test_examples_of_some_images():
    names = ("x", "y", "z")
    table, vocabulary = make_table(*(make_image(make_caption([0], [(0,)]), name=name) for name in names))
    assert make_examples(table, "train", vocabulary, images=np.array([True, False, True])).image.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("labels", "slots", "shifts"),
    [
        pytest.param([0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 0, 0], id="in a chunk"),
        pytest.param([0, 0, None, 1], [0, 0, 1, 1], [0, 1, 0, 0], id="before a chunk"),
        pytest.param([0, 1, 1, None], [0, 1, 1, 2], [1, 0, 1, 0], id="after the last chunk"),
    ],
)
def test_a_caption_truncated_before_its_last_chunk_ends_has_no_end_slot(labels, slots, shifts):
    table, vocabulary = make_table(make_image(make_caption(labels, [(2,), (0, 1)])))
    examples = make_examples(table, "train", vocabulary, tail="end", max_length=5)
    assert (examples.slots[0].tolist(), examples.shifts[0].tolist()) == (slots, shifts)


@pytest.mark.parametrize("max_length", [5, 20], ids=["truncated", "complete"])
def test_the_end_slot_follows_the_last_kept_set(max_length):
    table, vocabulary = make_table(make_image(make_caption([0, 1, 2, None], [(0,), (1,), (2,)])))
    examples = make_examples(table, "train", vocabulary, max_slots=2, max_length=max_length, tail="end")
    assert (region_sets(examples, 0), examples.slots[0, :4].tolist()) == ([[0], [1]], [0, 1, 1, 2])
    assert examples.shifts[0, :4].tolist() == [1, 0, 1, 0]


def test_sets_beyond_max_slots_are_dropped():
    table, vocabulary = make_table(make_image(make_caption([0, 1, 2], [(0,), (1,), (2,)])))
    examples = make_examples(table, "train", vocabulary, max_slots=2)
    assert (region_sets(examples, 0), examples.slots[0, :3].tolist()) == ([[0], [1]], [0, 1, 1])
    assert examples.shifts[0, :3].tolist() == [1, 0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_vectorized_examples_equal_shift_targets_per_caption(seed):
    rng = np.random.default_rng(seed)

    def random_caption() -> Caption:
        num_chunks = int(rng.integers(1, 5))
        labels: list[int | None] = []
        for chunk in range(num_chunks):
            labels += [None] * int(rng.integers(0, 3)) + [chunk] * int(rng.integers(1, 3))
        labels += [None] * int(rng.integers(0, 3))
        return make_caption(labels, [tuple(range(int(rng.integers(0, 4)))) for _ in range(num_chunks)])

    images = [make_image(*(random_caption() for _ in range(3)), name=f"{number}") for number in range(4)]
    table, vocabulary = make_table(*images)
    examples = make_examples(table, "train", vocabulary, max_length=30)
    as_printed = make_examples(table, "train", vocabulary, max_length=30, gate_targets="every_chunk")
    for row in range(len(examples)):
        image = images[int(examples.image[row])]
        caption = image.captions[row % 3]
        length = len(caption.words)
        assert examples.num_words[row] == length
        assert examples.slots[row, :length].tolist() == fill_regions(caption.chunk_of_word)
        assert examples.shifts[row, :length].tolist() == shift_targets(caption.chunk_of_word)
        assert as_printed.shifts[row, :length].tolist() == shift_targets(caption.chunk_of_word, targets="every_chunk")
        first = 3 * int(examples.image[row])
        expected = [[first + m for m in chunk.regions or range(3)] for chunk in caption.chunks or ()]
        assert region_sets(examples, row) == expected


def test_an_unknown_split_is_an_error():
    table, vocabulary = make_table(make_image(make_caption([0], [(0,)])))
    with pytest.raises(InputError, match="no split 'test'"):
        make_examples(table, "test", vocabulary)


@pytest.mark.parametrize(
    ("captions", "expected"),
    [
        pytest.param([], [], id="no sample"),
        pytest.param([make_caption([0, None, 0], [(2,)])], [[[2], [2]]], id="two mentions of one chunk"),
        pytest.param(
            [make_caption([*range(30)], [(number % 3,) for number in range(30)]), make_caption([0], [(1, 0)])],
            [[[number % 3] for number in range(30)], [[0, 1]]],
            id="longer than a training example",
        ),
    ],
)
def test_examples_from_samples_keep_the_complete_control(captions, expected):
    first = make_image(make_caption([0], [(0,)]), name="another image, whose regions come first")
    table, _ = make_table(first, make_image(*captions))
    samples = [sample for sample in make_samples(table, "train") if sample.image == 1]
    examples = examples_from_samples(table, samples)
    assert [region_sets(examples, row) for row in range(len(samples))] == [
        [[3 + member for member in members] for members in sets] for sets in expected
    ]
    assert examples.caption.tolist() == [sample.captions[0] for sample in samples]
    assert examples.image.tolist() == [1] * len(samples)


def test_region_sets_of_samples_are_limited_as_in_evaluation():
    table, _ = make_table(make_image(make_caption([0], [tuple(range(29, -1, -1))]), num_regions=30))
    assert region_sets(examples_from_samples(table, make_samples(table, "train")), 0) == [list(range(20))]


MANY = MAX_WHOLE_IMAGE_REGIONS - 1


def examples_of_sets(sets: list[list[range]]) -> Examples:
    """Examples whose region sets are slices of a list of regions 1000, 1001, ..."""
    num_slots = np.array([len(control) for control in sets], np.uint8)
    starts, sizes = (np.zeros((len(sets), 3), dtype) for dtype in (np.int32, np.uint8))
    for row, control in enumerate(sets):
        for slot, members in enumerate(control):
            starts[row, slot], sizes[row, slot] = members.start, len(members)
    steps = np.ones((len(sets), 4), np.uint8)
    return Examples(
        words=np.full((len(sets), 5), 7, np.uint16),
        slots=steps,
        shifts=steps,
        num_words=steps[:, 0],
        image=np.arange(len(sets)),
        caption=np.arange(len(sets)),
        set_starts=starts,
        set_sizes=sizes,
        num_slots=num_slots,
        members=np.arange(1000, 1300, dtype=np.int32),
    )


@pytest.mark.parametrize(
    ("sets", "pools"),
    [
        pytest.param([], [], id="no captions"),
        pytest.param([[range(2)]], [[0, 1]], id="one set"),
        pytest.param([[range(5, 7), range(2), range(9, 10)]], [[5, 6, 0, 1, 9]], id="in the order of the control"),
        pytest.param([[range(3), range(3)]], [[0, 1, 2, 0, 1, 2]], id="repeated regions"),
        pytest.param([[range(1)], [], [range(4, 6), range(1)]], [[0], [], [4, 5, 0]], id="different lengths"),
        pytest.param([[range(MANY), range(200, 210)], [range(2)]], [[*range(MANY), 200], [0, 1]], id="truncated"),
    ],
)
def test_pooled_controls_are_one_concatenated_set(sets, pools):
    plain = examples_of_sets(sets)
    pooled = pooled_control_examples(plain)
    ends = pooled.set_starts[:, 0] + pooled.set_sizes[:, 0]
    found = [pooled.members[start:end].tolist() for start, end in zip(pooled.set_starts[:, 0], ends, strict=True)]
    assert found == [[1000 + index for index in pool] for pool in pools]
    assert pooled.set_starts.shape == pooled.set_sizes.shape == (len(sets), 1)
    assert pooled.num_slots.tolist() == [1] * len(sets)
    assert not pooled.slots.any()
    assert not pooled.shifts.any()
    assert pooled.words is plain.words


def test_whole_image_examples_have_one_set_and_no_shifts():
    caption = make_caption([0, 0, None, 1, 1], [(0,), (2, 1)])
    num_regions = MAX_WHOLE_IMAGE_REGIONS + 7
    scores = (0.5,) * (num_regions - 1) + (0.75,)
    few = make_image(caption, caption, num_regions=4, name="few")
    many = make_image(caption, caption, num_regions=num_regions, scores=scores, name="many")
    table, vocabulary = make_table(few, many)
    examples = make_examples(table, "train", vocabulary)
    whole = whole_image_examples(table, examples)
    assert np.array_equal(whole.words, examples.words)
    assert not whole.slots.any()
    assert not whole.shifts.any()
    assert whole.num_slots.tolist() == [1, 1, 1, 1]
    assert whole.set_sizes[:, 0].tolist() == [4, 4, MAX_WHOLE_IMAGE_REGIONS, MAX_WHOLE_IMAGE_REGIONS]
    assert region_sets(whole, 2) == [[4 + member for member in whole_image_regions(table, 1)]]


def test_rows_past_2_to_the_31_are_kept():
    table, vocabulary = make_table(make_image(make_caption([0], [(0,)])))
    examples = make_examples(table, "train", vocabulary)
    assert {examples.set_starts.dtype, examples.members.dtype, examples.image.dtype} == {np.dtype(np.int32)}
    far = 5 << 30
    moved = examples.with_one_set(np.array([far]), np.array([1]), np.array([far + 1]))
    assert (moved.set_starts.tolist(), moved.members.tolist()) == ([[far]], [far + 1])
