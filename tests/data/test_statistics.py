from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.statistics import compute_statistics, mark_captions
from sct.data.table import build_table
from sct.data.table_join import merge_tables
from sct.regions import Box, Region

DOG, CAT, GAP = Chunk("dog", (0,)), Chunk("cat", (1,)), Chunk(None, ())
REGIONS = (Region(Box(0, 0, 1, 1), "dog"), Region(Box(1, 1, 2, 2), "cat"))


def image(image_id, split, *captions, regions=REGIONS):
    """An image with captions given by their chunks, of one word each."""
    return AnnotatedImage(
        image_id=image_id,
        split=split,
        width=9,
        height=9,
        regions=regions,
        captions=tuple(Caption("", ("x",) * len(chunks), tuple(range(len(chunks))), chunks) for chunks in captions),
    )


def test_statistics_of_usable_captions():
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
    assert (train.num_noun_chunks, train.num_classes) == (5, 2)
    assert (train.num_source_chunks, train.num_associated_chunks, train.associated_share) == (6, 3, 0.5)
    assert val.associated_share == 2 / 3, "dropped captions are included"
    assert train.chunks_per_caption == 5 / 3
    assert (train.num_without_chunk, train.num_unassociated) == (2, 0), "training fills unassociated chunks"
    assert (val.num_captions, val.num_noun_chunks, val.num_classes, val.num_unassociated) == (1, 1, 1, 1), (
        "validation does not"
    )
    assert mark_captions(table).usable.tolist() == [True, True, True, False, False, False, True]


def test_repeated_mentions_are_counted():
    """In reference mode two mentions of one class share a chunk."""
    twice = Caption("", ("a", "dog", "and", "a", "dog"), (0, 0, None, 0, 0), (DOG,))
    again = Caption("", ("dog", "dog"), (0, 0), (DOG,))
    twice_image = AnnotatedImage(image_id="1", split="val", width=9, height=9, regions=REGIONS, captions=(twice, again))
    table, _ = merge_tables([build_table([twice_image])])
    assert compute_statistics(table)["val"].num_noun_chunks == 3


def test_chunks_per_caption_of_an_empty_split_is_zero():
    table, _ = merge_tables([build_table([image("1", "val", (GAP,))])])
    assert compute_statistics(table)["val"].chunks_per_caption == 0
