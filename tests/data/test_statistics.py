from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.statistics import compute_statistics, mark_captions
from sct.data.table import build_table, merge_tables
from sct.regions import Box, Region

DOG, CAT, GAP = Chunk("dog", (0,)), Chunk("cat", (1,)), Chunk(None, ())
REGIONS = (Region(Box(0, 0, 1, 1), "dog"), Region(Box(1, 1, 2, 2), "cat"))


def image(image_id, split, *captions, regions=REGIONS):
    """Each caption is given by its chunks, of one word each."""
    return AnnotatedImage(
        image_id=image_id,
        split=split,
        width=9,
        height=9,
        regions=regions,
        captions=tuple(Caption("", ("x",) * len(chunks), tuple(range(len(chunks))), chunks) for chunks in captions),
    )


def test_counts_what_the_paper_counts():
    images = [
        image("1", "train", (DOG, CAT), (DOG, GAP)),
        image("2", "train", (GAP,), ()),
        image("3", "train", (GAP,), regions=()),
        image("4", "val", (DOG, GAP), (DOG,)),
    ]
    table, _ = merge_tables([build_table(images)])
    found = compute_statistics(table)
    train, val = found["train"], found["val"]
    assert (train.num_images, train.num_source_captions, train.num_captions) == (3, 5, 3)
    assert (train.num_noun_chunks, train.num_associated_chunks, train.num_classes) == (5, 3, 2)
    assert train.chunks_per_caption == 5 / 3
    assert (train.num_without_chunk, train.num_unassociated) == (2, 0), "training fills a gap from the image"
    assert (val.num_captions, val.num_noun_chunks, val.num_classes, val.num_unassociated) == (1, 1, 1, 1), (
        "validation does not"
    )
    assert mark_captions(table).usable.tolist() == [True, True, True, False, False, False, True]


def test_a_chunk_mentioned_twice_counts_twice():
    """In reference mode two chunks of one class share a label."""
    twice = Caption("", ("a", "dog", "and", "a", "dog"), (0, 0, None, 0, 0), (DOG,))
    again = Caption("", ("dog", "dog"), (0, 0), (DOG,))
    shown = AnnotatedImage(image_id="1", split="val", width=9, height=9, regions=REGIONS, captions=(twice, again))
    table, _ = merge_tables([build_table([shown])])
    assert compute_statistics(table)["val"].num_noun_chunks == 3


def test_a_split_without_usable_captions_has_no_average():
    table, _ = merge_tables([build_table([image("1", "val", (GAP,))])])
    assert compute_statistics(table)["val"].chunks_per_caption == 0
