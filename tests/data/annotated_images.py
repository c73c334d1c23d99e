"""Random annotated images, as hypothesis strategies."""

from hypothesis import strategies as st

from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.regions import Box, Region

words = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=4)
image_ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=4)
names = st.sampled_from(["dog", "cat", "hot dog"])
# Scores and corners are exact in half and single precision, so that records round-trip.
regions = st.builds(
    lambda x, y, w, h, name, score: Region(Box(x, y, x + w, y + h), name, score),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(1, 99),
    st.integers(1, 99),
    st.none() | names,
    st.none() | st.integers(0, 8).map(lambda eighths: eighths / 8),
)


@st.composite
def captions(draw, num_regions):
    members = st.lists(st.integers(0, num_regions - 1), unique=True, max_size=3) if num_regions else st.just([])
    chunk = st.builds(Chunk, st.none() | names, members.map(tuple), st.none() | st.sampled_from(["child", "dog"]))
    chunks = draw(st.lists(chunk, max_size=3))
    labels = draw(st.lists(st.none() | st.integers(0, len(chunks) - 1) if chunks else st.none(), max_size=6))
    return Caption(
        draw(st.text(max_size=9)),
        tuple(draw(st.lists(words, min_size=len(labels), max_size=len(labels)))),
        tuple(labels),
        tuple(chunks),
        auto_grounded=draw(st.booleans()),
    )


@st.composite
def images(draw):
    found = tuple(draw(st.lists(regions, max_size=3)))
    return AnnotatedImage(
        image_id=draw(image_ids),
        split=draw(st.sampled_from(["train", "val", "test"])),
        width=draw(st.integers(1, 2000)),
        height=draw(st.integers(1, 2000)),
        regions=found,
        captions=tuple(draw(st.lists(captions(len(found)), max_size=3))),
        file=draw(st.none() | st.just("a.jpg")),
    )


unique_images = st.lists(images(), max_size=5, unique_by=lambda image: image.image_id)
