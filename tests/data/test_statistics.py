from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.statistics import mark_captions, statistics
from sct.data.table import join, pack
from sct.regions import Box, Region

DOG, CAT, GAP = Chunk("dog", (0,)), Chunk("cat", (1,)), Chunk(None, ())


def image(image_id, split, *captions):
    return AnnotatedImage(
        image_id=image_id,
        split=split,
        width=9,
        height=9,
        regions=(Region(Box(0, 0, 1, 1), "dog"), Region(Box(1, 1, 2, 2), "cat")),
        captions=tuple(Caption("", (), (), chunks) for chunks in captions),
    )


def test_counts_what_the_paper_counts():
    images = [
        image("1", "train", (DOG, CAT), (DOG, GAP)),
        image("2", "train", (GAP,), ()),
        image("3", "val", (DOG, GAP), (DOG,)),
    ]
    table, _ = join([pack(images)])
    found = statistics(table)
    train, val = found["train"], found["val"]
    assert (train.images, train.captions_in_source, train.captions) == (2, 4, 2)
    assert (train.noun_chunks, train.associated_chunks, train.classes, train.chunks_per_caption) == (4, 3, 2, 2.0)
    assert (train.dropped_without_region, train.dropped_unassociated) == (2, 0), "training keeps a gap"
    assert (val.captions, val.noun_chunks, val.classes, val.dropped_unassociated) == (1, 1, 1, 1), "validation does not"
    assert mark_captions(table).usable.tolist() == [True, True, False, False, False, True]


def test_a_split_without_usable_captions_has_no_average():
    table, _ = join([pack([image("1", "val", (GAP,))])])
    assert statistics(table)["val"].chunks_per_caption == 0
