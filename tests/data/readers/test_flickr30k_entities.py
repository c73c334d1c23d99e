import json
import os

import pytest

from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.readers.flickr30k_entities import read_flickr30k_entities
from sct.data.records import Chunk
from sct.data.sources import SourceOptions, open_source
from sct.errors import InputError
from sct.limits import MAX_RECORD_BYTES
from sct.regions import Box, Region

MAN_AND_DOG = "[/EN#1/people A man 's Dog] and [/EN#2/animals/other a T-shirt] , in [/EN#3/scene a park] ."


class Store:
    """Fake detections."""

    def __init__(self, **regions_of_image):
        self.regions_of_image = regions_of_image

    def __contains__(self, image_id):
        return image_id in self.regions_of_image

    def regions(self, image_id):
        return tuple(Region(Box(*map(float, box)), name) for name, *box in self.regions_of_image[image_id])


def box(chains, x1, y1, x2, y2):
    names = "".join(f"<name>{chain}</name>" for chain in chains)
    corners = f"<xmin>{x1}</xmin><ymin>{y1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax>"
    return f"<object>{names}<bndbox>{corners}</bndbox></object>"


def flagged(chain, *, scene=0, nobox=0):
    return f"<object><name>{chain}</name><scene>{scene}</scene><nobndbox>{nobox}</nobndbox></object>"


def xml(*objects, width=100, height=80):
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    return f"<annotation><filename>a.jpg</filename>{size}{''.join(objects)}</annotation>"


TWO_BOXES = xml(box("1", 11, 21, 30, 60), box("2", 50, 10, 59, 19), flagged("3", scene=1))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "Sentences").mkdir()
    (tmp_path / "Annotations").mkdir()
    return tmp_path


@pytest.fixture
def read(root):
    """Write the official files of the given images and read them."""

    def read(images, **options):
        for image_id, (sentences, annotations) in images.items():
            if sentences is not None:
                content = sentences if isinstance(sentences, bytes) else "\n".join(sentences).encode()
                (root / "Sentences" / f"{image_id}.txt").write_bytes(content + b"\n")
            if annotations is not None:
                (root / "Annotations" / f"{image_id}.xml").write_text(annotations)
        options = {"detections": None, "errors": ReadErrors(), **options}
        return list(read_flickr30k_entities(root, karpathy(root, images), **options))

    return read


def karpathy(root, image_ids, split="train"):
    path = root / "dataset_flickr30k.json"
    images = [{"filename": f"{image_id}.jpg", "split": split, "sentences": []} for image_id in image_ids]
    path.write_text(json.dumps({"images": images}))
    return path


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_no_images(read, mode):
    assert read({}, mode=mode) == []


def test_paper_mode_on_the_human_boxes(read):
    (image,) = read({"36979": ([MAN_AND_DOG], TWO_BOXES)})
    assert (image.image_id, image.split, image.file) == ("36979", "train", "36979.jpg")
    assert (image.width, image.height) == (100, 80)
    assert image.regions == (Region(Box(10, 20, 30, 60)), Region(Box(49, 9, 59, 19)))
    (caption,) = image.captions
    assert caption.text == "A man 's Dog and a T-shirt , in a park ."
    assert caption.words == ("a", "man", "'s", "dog", "and", "a", "t-shirt", "in", "a", "park")
    assert caption.chunk_of_word == (0, 0, 0, 0, None, 1, 1, None, None, None)
    assert caption.chunks == (Chunk(None, (0,)), Chunk(None, (1,)))


def test_reference_mode_keeps_case_corners_and_marks_inside_words(read):
    (image,) = read({"36979": ([MAN_AND_DOG], TWO_BOXES)}, mode="reference")
    assert image.regions == (Region(Box(11, 21, 30, 60)), Region(Box(50, 10, 59, 19)))
    (caption,) = image.captions
    assert caption.words == ("A", "man", "'s", "Dog", "and", "a", "T-shirt", "in", "a", "park")
    assert caption.chunk_of_word == (0, 0, 0, 0, None, 1, 1, None, None, None)


def test_reference_mode_tokenizes_phrases_separately(read):
    (image,) = read({"1": (["[/EN#1/people A man]'s dog"], TWO_BOXES)}, mode="reference")
    assert image.captions[0].words == ("A", "man", "'s", "dog")
    assert image.captions[0].chunk_of_word == (0, 0, None, None)


def test_repeated_chains_are_two_chunks_in_paper_mode_and_one_in_reference_mode(read):
    sentence = "[/EN#2/animals A dog] and [/EN#1/people a man] hold [/EN#2/animals it]"
    images = {"1": ([sentence], TWO_BOXES)}
    (paper,) = read(images)
    (reference,) = read(images, mode="reference")
    assert paper.captions[0].chunk_of_word == (0, 0, None, 1, 1, None, 2)
    assert [chunk.regions for chunk in paper.captions[0].chunks] == [(1,), (0,), (1,)]
    # The authors order chains as in the annotations, not as in the sentence.
    assert reference.captions[0].chunk_of_word == (1, 1, None, 0, 0, None, 1)
    assert [chunk.regions for chunk in reference.captions[0].chunks] == [(0,), (1,)]


def test_chains_share_boxes(read):
    annotations = xml(box("12", 1, 1, 10, 10), box("2", 20, 20, 30, 30), box("2", 1, 1, 10, 10))
    (image,) = read({"1": (["[/EN#1/people A man] among [/EN#2/people men]"], annotations)})
    assert len(image.regions) == 2
    assert [chunk.regions for chunk in image.captions[0].chunks] == [(0,), (0, 1)]


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        pytest.param((1, 1, 100, 80), (0, 0, 100, 80), id="the whole image"),
        pytest.param((0, 0, 101, 81), (0, 0, 100, 80), id="clipped"),
        pytest.param((5, 5, 5, 5), (4, 4, 5, 5), id="one pixel"),
    ],
)
def test_paper_mode_converts_pixels_to_corners(read, pixels, expected):
    (image,) = read({"1": (["[/EN#1/people A man]"], xml(box("1", *pixels)))})
    assert tuple(image.regions[0].box) == expected


def test_boxes_slightly_outside_are_clipped_with_one_warning(read, caplog):
    images = {str(number): ([GOOD], xml(box("1", 0, 1, 103, 80), box("1", 1, 1, 9, 9))) for number in (1, 2)}
    assert [image.regions[0].box for image in read(images)] == [(0, 0, 100, 80)] * 2
    (message,) = caplog.messages
    assert message.endswith("Annotations: boxes that left their image by a few pixels and were clipped: 2")


def test_a_published_file_with_every_kind_of_object(read):
    """As in 1000092795.xml: tabs, an object of two chains, scenes and phrases without a box."""
    annotations = """<annotation>
\t<filename>1000092795.jpg</filename>
\t<size>
\t\t<width>333</width>
\t\t<height>500</height>
\t\t<depth>3</depth>
\t</size>
\t<object>
\t\t<name>1</name>
\t\t<name>6</name>
\t\t<bndbox>
\t\t\t<xmin>197</xmin>
\t\t\t<ymin>110</ymin>
\t\t\t<xmax>261</xmax>
\t\t\t<ymax>373</ymax>
\t\t</bndbox>
\t</object>
\t<object>
\t\t<name>8</name>
\t\t<name>9</name>
\t\t<scene>1</scene>
\t\t<nobndbox>0</nobndbox>
\t</object>
\t<object>
\t\t<name>10</name>
\t\t<scene>0</scene>
\t\t<nobndbox>1</nobndbox>
\t</object>
</annotation>"""
    sentence = "[/EN#6/people A man] in [/EN#9/scene a yard] with [/EN#10/other a plan] and [/EN#8/scene trees]"
    skipped = SkipCounts()
    (image,) = read({"1": ([sentence], annotations)}, skipped=skipped)
    assert image.captions[0].chunks == (Chunk(None, (0,)),)
    assert skipped == SkipCounts(mentions_of_a_scene=2, mentions_without_box=1)


def test_a_pipe_is_not_read(read, root):
    os.mkfifo(root / "Annotations" / "1.xml")
    with pytest.raises(InputError, match=r"1\.xml is a pipe or a device: expected the boxes"):
        read({"1": ([GOOD], None)})


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([flagged("1", scene=1)], SkipCounts(mentions_of_a_scene=1), id="scene"),
        pytest.param([flagged("1", nobox=1)], SkipCounts(mentions_without_box=1), id="nobox"),
        pytest.param([flagged("1", scene=1, nobox=1)], SkipCounts(mentions_of_a_scene=1), id="scene and nobox"),
        pytest.param([], SkipCounts(mentions_without_box=1), id="not in the annotations"),
    ],
)
def test_a_phrase_without_a_box_is_not_a_chunk(read, objects, expected):
    images = {"1": (["[/EN#1/scene A park] ."], xml(*objects))}
    skipped = SkipCounts()
    (image,) = read(images, skipped=skipped)
    assert image.captions[0].chunks == ()
    assert skipped == expected
    reference = SkipCounts()
    assert read(images, mode="reference", skipped=reference) == []
    assert reference.captions_without_region == 1


def test_boxes_take_precedence_over_flags(read):
    (image,) = read({"1": (["[/EN#1/scene A park]"], xml(flagged("1", scene=1), box("1", 1, 1, 9, 9)))})
    assert image.captions[0].chunks == (Chunk(None, (0,)),)


@pytest.mark.parametrize(("mode", "kept"), [("paper", 2), ("reference", 1)])
def test_captions_without_phrases_are_kept_in_paper_mode_only(read, mode, kept):
    (image,) = read({"1": (["No phrase .", "[/EN#1/people A man]"], TWO_BOXES)}, mode=mode)
    assert len(image.captions) == kept


FAR = ("tree", 90, 70, 99, 79)
NEAR = ("man", 10, 20, 29, 59)
HALF = ("boy", 10, 20, 29, 39)


@pytest.mark.parametrize(
    ("mode", "detections", "min_iou", "regions"),
    [
        pytest.param("paper", [HALF, NEAR, FAR], None, (1,), id="highest IoU"),
        pytest.param("paper", [NEAR, NEAR], None, (0,), id="ties go to the first"),
        pytest.param("paper", [HALF, FAR], 0.5, (0,), id="IoU equals the threshold: 400 / 800"),
        pytest.param("paper", [HALF, FAR], 0.51, None, id="IoU below the threshold"),
        pytest.param("paper", [FAR, FAR], None, None, id="no overlap"),
        pytest.param("reference", [HALF, NEAR, FAR], None, (1,), id="reference: highest IoU"),
        pytest.param("reference", [FAR, FAR, FAR], None, (2,), id="reference: no overlap, the last"),
        pytest.param("reference", [FAR, FAR, FAR], 0.1, None, id="reference: no overlap with a threshold"),
    ],
)
def test_boxes_are_matched_to_the_detection_with_the_highest_iou(read, mode, detections, min_iou, regions):
    skipped = SkipCounts()
    images = read(
        {"1": (["[/EN#1/people A man] stands"], xml(box("1", 11, 21, 30, 60)))},
        mode=mode,
        detections=Store(**{"1": detections}),
        min_iou=min_iou,
        skipped=skipped,
    )
    chunks = [chunk for image in images for caption in image.captions for chunk in caption.chunks]
    assert chunks == ([] if regions is None else [Chunk(detections[regions[0]][0], regions)])
    assert skipped.boxes_without_detection == (regions is None)


def test_paper_mode_compares_pixels_counted_from_zero(read):
    images = {"1": (["[/EN#1/people A man]"], xml(box("1", 11, 21, 30, 60)))}
    store = Store(**{"1": [NEAR]})  # the same pixels, counted from 0: IoU 1
    (image,) = read(images, detections=store, min_iou=1.0)
    assert image.captions[0].chunks == (Chunk("man", (0,)),)
    assert read(images, detections=store, min_iou=1.0, mode="reference") == []


@pytest.mark.parametrize(("mode", "regions"), [("paper", (0,)), ("reference", (0, 0))])
def test_two_boxes_of_one_detection_repeat_it_in_reference_mode(read, mode, regions):
    annotations = xml(box("1", 11, 21, 30, 60), box("1", 12, 22, 30, 60))
    (image,) = read({"1": (["[/EN#1/people Men]"], annotations)}, mode=mode, detections=Store(**{"1": [NEAR]}))
    assert image.captions[0].chunks[0].regions == regions


@pytest.mark.parametrize(("mode", "kept"), [("paper", 25), ("reference", 20)])
def test_reference_mode_keeps_the_first_twenty_boxes(read, mode, kept):
    boxes = [(3 * column + 1, 1, 3 * column + 3, 9) for column in range(25)]
    store = Store(**{"1": [("man", *corners) for corners in boxes]})
    annotations = xml(*(box("1", *corners) for corners in boxes))
    (image,) = read({"1": (["[/EN#1/people Men]"], annotations)}, mode=mode, detections=store)
    assert image.captions[0].chunks[0].regions == tuple(range(kept))


def test_images_are_in_the_order_of_the_split_and_others_are_counted(read, root):
    (root / "Sentences" / "9.txt").write_text("[/EN#1/people A man]\n")
    skipped = SkipCounts()
    images = {image_id: (["[/EN#1/people A man]"], TWO_BOXES) for image_id in ("5", "3", "4")}
    assert [image.image_id for image in read(images, skipped=skipped)] == ["5", "3", "4"]
    assert skipped == SkipCounts(images_outside_the_split=1)


BILLION_LAUGHS = (
    '<!DOCTYPE a [<!ENTITY x0 "ha">'
    + "".join(f'<!ENTITY x{n + 1} "{f"&x{n};" * 10}">' for n in range(9))
    + "]><annotation>&x9;</annotation>"
)
GOOD = "[/EN#1/people A man] waits ."


@pytest.mark.parametrize("mode", ["paper", "reference"])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param("", "the sentence has no words", id="empty"),
        pytest.param("[/EN#1/people A man waits .", "opened at column 1 is never closed", id="never closed"),
        pytest.param("A man] waits .", "closed at column 6 was never opened", id="never opened"),
        pytest.param("[/EN#1/people A man]] waits", "closed at column 21 was never opened", id="closed twice"),
        pytest.param("a [/EN#1/people A [man] x]", "opened at column 3 contains another one", id="nested"),
        pytest.param("[A man] waits .", r"begins with 'A man': expected /EN#number/type", id="no entity"),
        pytest.param("[/EN#x/people A man]", "expected /EN#number/type", id="entity is not a number"),
        pytest.param("[/EN#1 A man]", "expected /EN#number/type", id="no type"),
        pytest.param("[] waits", "begins with '': expected /EN#number/type", id="empty brackets"),
        pytest.param(b"A caf\xe9 .", "byte 6 is not UTF-8", id="not UTF-8"),
        pytest.param("a man " * 2000, "caption of 11,999 characters", id="too long"),
    ],
)
def test_a_bad_sentence_is_an_error_or_skipped(read, line, reason, mode):
    content = b"\n".join([GOOD.encode(), line if isinstance(line, bytes) else line.encode(), GOOD.encode()])
    images = {"1": (content, TWO_BOXES)}
    with pytest.raises(InputError, match=rf"Sentences/1\.txt, line 2: .*{reason}[^(]*\(--skip-bad[^(]*$"):
        read(images, mode=mode)
    errors = ReadErrors(skip=True)
    (image,) = read(images, mode=mode, errors=errors)
    assert len(image.captions) == 2
    assert len(errors.messages) == 1


def test_a_sentence_of_too_many_chunks_is_an_error_or_skipped(read):
    images = {"1": (["[/EN#1/people A man] " * 255, GOOD], TWO_BOXES)}
    with pytest.raises(InputError, match=r"Sentences/1\.txt, line 1: .* has 255 noun chunks: expected at most 254"):
        read(images)
    (image,) = read(images, errors=ReadErrors(skip=True))
    assert [caption.words for caption in image.captions] == [("a", "man", "waits")]


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        pytest.param(None, "does not exist: expected the boxes", id="missing"),
        pytest.param("<a>" * 30_000, "invalid XML on line 1", id="deep"),
        pytest.param(" " * (MAX_RECORD_BYTES + 1), "has 1,048,577 bytes: expected the boxes", id="large"),
        pytest.param(BILLION_LAUGHS, "got a document type", id="entities that expand"),
        pytest.param(f'<!DOCTYPE a SYSTEM "/etc/passwd">{TWO_BOXES}', "got a document type", id="external entities"),
        pytest.param(
            xml(width=10**7 * 10), "<size>: <width> is 100000000: expected at most 16,777,216", id="huge size"
        ),
        pytest.param(xml(box("1", 1, 1, "9" * 400, 2)), "object 1: <xmax> is an integer of 1,329 bits", id="huge box"),
        pytest.param(
            xml(box("1", 1, 1, "9" * 5000, 2)), "object 1: <xmax> is '99999.*expected an integer", id="digits"
        ),
        pytest.param("", "invalid XML on line 1", id="empty"),
        pytest.param("<annotation>\n<object></annotation>", "invalid XML on line 2", id="invalid"),
        pytest.param("<annotation></annotation>", "no <size>", id="no size"),
        pytest.param(xml(width="wide"), "<size>: <width> is 'wide': expected an integer", id="size is not a number"),
        pytest.param(xml(height=0), "<size>: height is 0", id="no height"),
        pytest.param(xml(box("", 1, 1, 2, 2)), "object 1 has no <name>", id="no chain"),
        pytest.param(xml(flagged("1")), "object 1 has neither <bndbox> nor <scene>", id="neither box nor flag"),
        pytest.param(xml(box("1", 9, 1, 2, 2)), r"object 1: box \(9, 1, 2, 2\) is inverted", id="inverted box"),
        pytest.param(xml(box("1", 1, 1, "", 2)), "object 1: <xmax> is '': expected an integer", id="no corner"),
        pytest.param(xml(box("1", 200, 1, 300, 9)), "box .* leaves the image: expected", id="outside the image"),
    ],
)
def test_bad_annotations_are_an_error_or_their_image_is_skipped(read, annotations, reason):
    images = {"1": ([GOOD], annotations), "2": ([GOOD], TWO_BOXES)}
    with pytest.raises(InputError, match=rf"Annotations/1\.xml:? {reason}"):
        read(images)
    errors = ReadErrors(skip=True)
    assert [image.image_id for image in read(images, errors=errors)] == ["2"]
    assert len(errors.messages) == 1


@pytest.mark.parametrize(
    ("sentences", "detections", "reason"),
    [
        pytest.param(None, Store(**{"1": [NEAR], "2": [NEAR]}), r"Sentences/1\.txt does not exist", id="no sentences"),
        pytest.param([GOOD], Store(**{"2": [NEAR]}), "image 1 is not among the detections", id="no detections"),
        pytest.param([GOOD], Store(**{"1": [], "2": [NEAR]}), "image 1 has no detection, expected", id="no regions"),
    ],
)
def test_an_image_missing_from_another_source_is_an_error_or_skipped(read, sentences, detections, reason):
    images = {"1": (sentences, TWO_BOXES), "2": ([GOOD], TWO_BOXES)}
    with pytest.raises(InputError, match=reason):
        read(images, detections=detections)
    errors = ReadErrors(skip=True)
    assert [image.image_id for image in read(images, detections=detections, errors=errors)] == ["2"]
    assert len(errors.messages) == 1


@pytest.mark.parametrize("name", ["Sentences", "Annotations"])
def test_a_missing_folder_is_an_error(root, name):
    (root / name).rmdir()
    with pytest.raises(InputError, match=f"{name} does not exist: expected the unpacked Flickr30k Entities"):
        read_flickr30k_entities(root, karpathy(root, []), detections=None, errors=ReadErrors(skip=True))


@pytest.mark.parametrize("min_iou", [0.0, -0.5, 1.5])
def test_a_threshold_out_of_range_is_an_error(read, min_iou):
    with pytest.raises(InputError, match=rf"got min_iou {min_iou}"):
        read({}, min_iou=min_iou)


def test_its_own_splits(root):
    for image_id in ("1", "2", "3"):
        (root / "Sentences" / f"{image_id}.txt").write_text(MAN_AND_DOG)
        (root / "Annotations" / f"{image_id}.xml").write_text(TWO_BOXES)
    (root / "train.txt").write_text("2\n")
    (root / "val.txt").write_text("1\n")
    skipped = SkipCounts()
    source = open_source(root, SourceOptions())
    images = list(source.read(ReadErrors(), skipped))
    assert [(image.image_id, image.split) for image in images] == [("2", "train"), ("1", "val")]
    assert skipped.images_outside_the_split == 1
    assert [path.name for path in source.files[:2]] == ["train.txt", "val.txt"]
    karpathy(root, ["3"])  # preferred to the lists
    assert [image.image_id for image in open_source(root, SourceOptions()).read(ReadErrors(), skipped)] == ["3"]
    assert [image.image_id for image in open_source(root, SourceOptions(splits=root)).read(ReadErrors(), skipped)] == [
        "2",
        "1",
    ]


def test_no_splits(root):
    with pytest.raises(InputError, match=r"has no splits: expected train\.txt, val\.txt or test\.txt"):
        open_source(root, SourceOptions())
