import json
import math

import pytest

from sct.data.readers.coco_entities import read_coco_entities
from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.records import Chunk
from sct.errors import InputError
from sct.regions import Box, Region

RIDER = "A woman in sunglasses riding a horse on a beach."
RIDER_KEY = "a woman in sunglasses riding a horse on a beach"
RIDER_CHUNKS = [["a woman", "woman"], ["sunglasses", "sunglasses"], ["a horse", "horse"], ["a beach", "beach"]]
RIDER_LABELS = ["woman", "woman", None, "sunglasses", None, "horse", "horse", None, "beach", "beach"]


class Store:
    """Fake detections."""

    def __init__(self, classes_of_image):
        self.classes_of_image = classes_of_image

    def __contains__(self, image_id):
        return image_id in self.classes_of_image

    def regions(self, image_id):
        return tuple(
            Region(Box(float(index), 0.0, index + 10.0, 20.0), class_name)
            for index, class_name in enumerate(self.classes_of_image[image_id])
        )


STORE = Store({"42": ["horse", "beach", "woman", "woman", "horse", "sunglasses", "dog"]})


def release_entry(**changes):
    """The authors' own example, with fewer boxes."""
    entry = {
        "det_sequences": RIDER_LABELS,
        "noun_chunks": RIDER_CHUNKS,
        "detections": {
            "sunglasses": [[38, [428.9, 97.3, 460.9, 118.5]]],
            "horse": [[33, [196.3, 228.7, 416.9, 416.5]], [0, [261.8, 186.0, 639.1, 426.3]]],
            "beach": [[1, [0.0, 148.8, 345.5, 426.3]]],
            "woman": [[9, [367.3, 176.1, 493.7, 394.8]], [12, [356.6, 53.0, 532.8, 297.7]]],
        },
        "split": "train",
    }
    return {name: value for name, value in {**entry, **changes}.items() if value is not ...}


@pytest.fixture
def read(tmp_path):
    """Write the official files and read them."""

    def read(annotations, captions=None, *, split="train", sizes=None, **options):
        path = tmp_path / "coco_entities.json"
        path.write_text(json.dumps(annotations))
        karpathy = None
        if captions is not None:
            karpathy = tmp_path / "dataset_coco.json"
            images = [
                {
                    "cocoid": int(image_id),
                    "filename": f"{image_id}.jpg",
                    "filepath": "train2014",
                    "split": split,
                    "sentences": [{"raw": raw} for raw in texts],
                }
                for image_id, texts in captions.items()
            ]
            karpathy.write_text(json.dumps({"images": images}))
        if sizes is not None:
            options["sizes"] = tmp_path / "coco_img_shapes.json"
            options["sizes"].write_text(json.dumps(sizes))
        options = {"detections": STORE, "errors": ReadErrors(), **options}
        return list(read_coco_entities(path, karpathy, **options))

    return read


def classes(caption):
    """Class of each word's chunk."""
    return [None if index is None else caption.chunks[index].class_name for index in caption.chunk_of_word]


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_no_images(read, mode):
    assert read({}, {}, mode=mode) == []


def test_training_file_in_paper_mode(read):
    (image,) = read({"42": {RIDER_KEY + ".": RIDER_CHUNKS}}, {"42": [RIDER]}, split="restval")
    (caption,) = image.captions
    assert (image.image_id, image.split, image.file) == ("42", "train", "train2014/42.jpg")
    assert image.regions == STORE.regions("42")
    assert caption.text == RIDER
    assert caption.words == tuple(RIDER_KEY.split())
    assert classes(caption) == RIDER_LABELS
    assert caption.chunks == (
        Chunk("woman", (2, 3)),
        Chunk("sunglasses", (5,)),
        Chunk("horse", (0, 4)),
        Chunk("beach", (1,)),
    )


def test_training_file_in_reference_mode(read):
    (image,) = read({"42": {RIDER_KEY + ".": RIDER_CHUNKS}}, {"42": [RIDER]}, mode="reference")
    (caption,) = image.captions
    assert caption.words == tuple(RIDER_KEY.split())
    assert classes(caption) == RIDER_LABELS


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_the_release_file_alone_gives_the_listed_regions_by_index(read, mode):
    (image,) = read({"264169": {RIDER_KEY: release_entry()}}, detections=None, mode=mode)
    (caption,) = image.captions
    assert (image.split, image.file, caption.text) == ("train", None, RIDER_KEY)
    assert [region.class_name for region in image.regions] == [
        "horse",  # 0
        "beach",  # 1
        "woman",  # 9
        "woman",  # 12
        "horse",  # 33
        "sunglasses",  # 38
    ]
    assert classes(caption) == RIDER_LABELS
    assert caption.chunks[2] == Chunk("horse", (0, 4))


def test_the_release_file_refers_to_detections_of_the_store_by_index(read):
    entry = release_entry(
        detections={
            "woman": [[3, [3, 0, 13, 20]]],
            "horse": [[0, [0, 0, 10, 20]]],
            "beach": [[1, [1, 0, 11, 20]]],
            "sunglasses": [[5, [5, 0, 15, 20]]],
        }
    )
    (image,) = read({"42": {RIDER_KEY: entry}})
    assert [chunk.regions for chunk in image.captions[0].chunks] == [(3,), (5,), (0,), (1,)]
    assert len(image.regions) == 7


def test_captions_as_written_are_matched_to_cleaned_keys(read):
    key = "a womans horse"
    entry = release_entry(
        det_sequences=["horse", "horse", "horse"],
        noun_chunks=[["a womans horse", "horse"]],
        detections={"horse": [[0, [0, 0, 10, 20]]]},
    )
    (image,) = read({"42": {key: entry}}, {"42": ["A woman's horse ."]})
    (caption,) = image.captions
    assert caption.text == "A woman's horse ."
    assert set(classes(caption)) == {"horse"}
    assert len(caption.words) == 4  # a | woman | 's | horse


@pytest.mark.parametrize(
    ("text", "chunks", "expected"),
    [
        pytest.param("a dog", [], [None, None], id="no chunk"),
        pytest.param("a woman", [["man", "dog"]], [None, None], id="not inside another word"),
        pytest.param(
            "a pizza dog and a dog",
            [["a dog", "dog"]],
            [None, None, None, None, "dog", "dog"],
            id="not across word boundaries",
        ),
        pytest.param(
            "a woman and a woman",
            [["a woman", "woman"], ["a woman", "dog"]],
            ["woman", "woman", None, "dog", "dog"],
            id="listed twice: two occurrences",
        ),
        pytest.param(
            "a woman and a woman",
            [["a woman", "woman"]],
            ["woman", "woman", None, None, None],
            id="listed once: one occurrence",
        ),
        pytest.param(
            "a dog and a horse",
            [["a horse", "horse"], ["a dog", "dog"]],
            ["dog", "dog", None, "horse", "horse"],
            id="listed out of order",
        ),
        pytest.param(
            "a horse rug and a horse",
            [["a horse rug", "beach"], ["a horse", "horse"]],
            ["beach", "beach", "beach", None, "horse", "horse"],
            id="words are not used twice",
        ),
        pytest.param(
            "a dog, a horse",
            [["a dog", "dog"], ["a unicorn", "horse"]],
            ["dog", "dog", None, None],
            id="not in the caption: skipped",
        ),
    ],
)
def test_paper_mode_aligns_by_token(read, text, chunks, expected):
    (image,) = read({"42": {text: chunks}}, {"42": [text]})
    assert classes(image.captions[0]) == expected


def test_paper_mode_counts_chunks_that_are_not_in_the_caption(read):
    skipped = SkipCounts()
    read({"42": {"a dog": [["a cat", "dog"], ["a dog", "dog"]]}}, {"42": ["a dog"]}, skipped=skipped)
    assert skipped == SkipCounts(chunks_not_found=1)


@pytest.mark.parametrize(
    ("text", "chunks", "words", "expected"),
    [
        pytest.param("A dog .", [], "a dog", [None, None], id="no chunk"),
        pytest.param(
            "a pizza dog and a dog",
            [["a dog", "dog"]],
            "a pizza dog and a dog",
            [None, None, "dog", None, "dog", "dog"],
            id="a substring labels whole words",
        ),
        pytest.param(
            "a woman and a woman",
            [["a woman", "woman"]],
            "a woman and a woman",
            ["woman", "woman", None, "woman", "woman"],
            id="all occurrences",
        ),
        pytest.param(
            "a dog horse and a dog",
            [["a dog horse", "horse"], ["a dog", "dog"]],
            "a dog horse and a dog",
            ["dog", "dog", "horse", None, "dog", "dog"],
            id="later chunks overwrite",
        ),
        pytest.param(
            "A woman .. rides a horse",
            [["a woman", "woman"], ["a horse", "horse"]],
            "a woman rides a horse",
            ["woman", "woman", None, None, "horse"],
            id="off by one after an emptied token",
        ),
        pytest.param(
            "a woman's t-shirt, dog",
            [["a woman's t-shirt", "woman"], ["dog", "dog"]],
            "a womans tshirt dog",
            ["woman", "woman", "woman", "dog"],
            id="marks inside words are removed",
        ),
    ],
)
def test_reference_mode_aligns_by_substring(read, text, chunks, words, expected):
    (image,) = read({"42": {text.lower(): chunks}}, {"42": [text]}, mode="reference")
    (caption,) = image.captions
    assert caption.words == tuple(words.split())
    assert classes(caption) == expected


def test_reference_mode_has_one_chunk_per_class(read):
    text = "a woman near a woman and a dog"
    chunks = [["a woman", "woman"], ["a woman", "woman"], ["a dog", "dog"]]
    (image,) = read({"42": {text: chunks}}, {"42": [text]}, mode="reference")
    (paper,) = read({"42": {text: chunks}}, {"42": [text]})
    assert image.captions[0].chunk_of_word == (0, 0, None, 0, 0, None, 1, 1)
    assert paper.captions[0].chunk_of_word == (0, 0, None, 1, 1, None, 2, 2)


def test_reference_mode_uses_the_labels_of_the_release_file(read):
    entry = release_entry(det_sequences=["woman", None, "horse", None, "sunglasses", "beach", None, None, None, None])
    (image,) = read({"42": {RIDER_KEY: entry}}, detections=None, mode="reference")
    assert classes(image.captions[0])[:6] == ["woman", None, "horse", None, "sunglasses", "beach"]


@pytest.mark.parametrize(("mode", "kept"), [("paper", 25), ("reference", 20)])
def test_reference_mode_keeps_the_first_twenty_detections(read, mode, kept):
    store = Store({"42": ["dog"] * 25})
    (image,) = read({"42": {"a dog": [["a dog", "dog"]]}}, {"42": ["a dog"]}, detections=store, mode=mode)
    assert image.captions[0].chunks == (Chunk("dog", tuple(range(kept))),)


@pytest.mark.parametrize("mode", ["paper", "reference"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_unassociated_chunks_are_kept_in_every_split(read, mode, split):
    chunks = [["a ghost", "_"], ["a dog", "dog"]]
    (image,) = read({"42": {"a ghost and a dog": chunks}}, {"42": ["a ghost and a dog"]}, mode=mode, split=split)
    assert image.captions[0].chunk_of_word == (0, 0, None, 1, 1)
    assert image.captions[0].chunks == (Chunk(None, ()), Chunk("dog", (6,)))


@pytest.mark.parametrize(("mode", "kept"), [("paper", 1), ("reference", 0)])
def test_reference_mode_skips_captions_with_fewer_runs_than_classes(read, mode, kept):
    skipped = SkipCounts()
    chunks = [["a dog", "dog"], ["a dog horse", "horse"]]  # the second overwrites the first: one run, two classes
    images = read({"42": {"a dog horse": chunks}}, {"42": ["a dog horse"]}, mode=mode, skipped=skipped)
    assert sum(len(image.captions) for image in images) == kept
    assert skipped.captions_with_too_few_runs == 1 - kept


def test_captions_are_in_the_order_of_the_split_and_others_are_counted(read):
    skipped = SkipCounts()
    annotations = {"42": {"a dog": [["a dog", "dog"]], "a horse": [["a horse", "horse"]], "a cow": []}}
    captions = {"42": ["A horse", "a dog", "a dog", "not annotated"], "43": ["not annotated"]}
    (image,) = read(annotations, captions, skipped=skipped)
    assert [caption.text for caption in image.captions] == ["A horse", "a dog", "a dog"]
    assert skipped == SkipCounts(
        captions_without_annotation=1, annotations_without_caption=1, images_without_annotation=1
    )


def test_an_image_of_unknown_size_extends_to_its_outermost_regions(read):
    annotations, captions = {"42": {"a dog": [["a dog", "dog"]]}}, {"42": ["a dog"]}
    (unknown,) = read(annotations, captions)
    (known,) = read(annotations, captions, sizes={"42": [640, 480]})
    assert (unknown.width, unknown.height) == (16, 20)  # the last of seven boxes starts at 6 and is 10 wide
    assert (known.width, known.height) == (640, 480)


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        pytest.param({}, "image 42: not in the file of image sizes", id="missing"),
        pytest.param({"42": [640]}, r"image 42: got size \[640\], expected", id="one number"),
        pytest.param({"42": [0, 3]}, r"image 42: got size \[0, 3\], expected", id="no width"),
        pytest.param({"42": [True, True]}, r"image 42: got size \[True, True\], expected", id="booleans"),
        pytest.param({"42": [1e308, 3]}, "of 1 to 16,777,216 pixels", id="a huge width"),
        pytest.param({"42": [10**400, 3]}, "of 1 to 16,777,216 pixels", id="a width beyond a float"),
        pytest.param({"42": [math.nan, 3]}, "of 1 to 16,777,216 pixels", id="not a number"),
        pytest.param({"42": [7, 9]}, r"image 42: box .* leaves the image", id="of another image"),
    ],
)
def test_a_bad_size_is_an_error(read, sizes, reason):
    with pytest.raises(InputError, match=reason):
        read({"42": {"a dog": [["a dog", "dog"]]}}, {"42": ["a dog"]}, sizes=sizes)


GOOD = "a beach"
GOOD_CHUNKS = [["a beach", "beach"]]


@pytest.mark.parametrize("mode", ["paper", "reference"])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param("dog", "the list of chunks is a str: expected a list", id="not a list"),
        pytest.param([["a dog"]], r"got chunk \['a dog'\], expected", id="no class"),
        pytest.param([["a dog", None]], r"got chunk \['a dog', None\], expected", id="class is null"),
        pytest.param([["a dog", "unicorn"]], "class 'unicorn' has no detection", id="class not detected"),
        pytest.param([["a dog", "dog"]] * 255, "the caption has 255 chunks: expected at most 254", id="many chunks"),
    ],
)
def test_a_bad_caption_of_the_training_file_is_an_error_or_skipped(read, value, reason, mode):
    annotations, captions = {"42": {"a dog": value, GOOD: GOOD_CHUNKS}}, {"42": ["a dog", GOOD]}
    with pytest.raises(InputError, match=rf"coco_entities\.json, image 42, caption 'a dog': {reason}.*--skip-bad"):
        read(annotations, captions, mode=mode)
    errors = ReadErrors(skip=True)
    (image,) = read(annotations, captions, mode=mode, errors=errors)
    assert [caption.text for caption in image.captions] == [GOOD]
    assert len(errors.messages) == 1


@pytest.mark.parametrize("mode", ["paper", "reference"])
def test_a_long_caption_is_an_error(read, mode):
    text = "a dog " * 2000
    with pytest.raises(InputError, match="caption of 12,000 characters, expected at most"):
        read({"42": {text: [["a dog", "dog"]]}}, {"42": [text]}, mode=mode)


def test_boxes_slightly_outside_are_clipped_with_one_warning_in_paper_mode(read, caplog):
    annotations, captions = {"42": {"a dog": [["a dog", "dog"]]}}, {"42": ["a dog"]}
    (image,) = read(annotations, captions, sizes={"42": [15, 18]})
    assert image.regions[-1].box[2:] == (15, 18)
    (message,) = caplog.messages
    assert message.endswith("coco_entities.json: boxes that left their image by a few pixels and were clipped: 7")
    (image,) = read(annotations, captions, sizes={"42": [15, 18]}, mode="reference")
    assert image.regions[-1].box[2:] == (16, 20)


def test_a_caption_without_words_is_an_error(read):
    with pytest.raises(InputError, match=r"caption '\.': the caption has no words"):
        read({"42": {".": []}}, {"42": ["."]})
    with pytest.raises(InputError, match=r"caption '\.': the caption has no words"):
        read({"42": {".": []}}, {"42": ["."]}, mode="reference")


@pytest.mark.parametrize("mode", ["paper", "reference"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"det_sequences": ...}, "the caption has no 'det_sequences'", id="no labels"),
        pytest.param({"det_sequences": ["woman"]}, "'det_sequences' has 1 classes for 10 words", id="too few labels"),
        pytest.param({"det_sequences": [*RIDER_LABELS, None]}, "has 11 classes for 10 words", id="too many labels"),
        pytest.param({"det_sequences": [3] * 10}, "a class of 'det_sequences' is a int", id="label is a number"),
        pytest.param({"noun_chunks": ...}, "the caption has no 'noun_chunks'", id="no chunks"),
        pytest.param({"detections": []}, "'detections' is a list", id="detections are a list"),
        pytest.param({"detections": {"dog": [[1]]}}, r"got detection \[1\], expected", id="no box"),
        pytest.param({"detections": {"dog": [[-1, [0, 0, 1, 1]]]}}, "got detection .*, expected", id="negative index"),
        pytest.param({"detections": {"dog": [[1, [5, 0, 3, 4]]]}}, "box .* is inverted", id="inverted box"),
        pytest.param({"detections": {"dog": [[1, [0, 0, "x", 4]]]}}, "got detection .*, expected", id="box of text"),
        pytest.param({"detections": {"dog": [[1, [0, 0, True, 4]]]}}, "got detection .*, expected", id="box of true"),
        pytest.param({"detections": {"dog": [[1, [0, 0, 1e30, 4]]]}}, "box .* is too large", id="huge box"),
        pytest.param({"detections": {}}, "class 'woman' has no detection under", id="no detections"),
        pytest.param({"split": "dev"}, "got split 'dev'", id="unknown split"),
        pytest.param({"split": ...}, "the caption has no 'split'", id="no split"),
    ],
)
def test_a_bad_caption_of_the_release_file_is_an_error_or_skipped(read, changes, reason, mode):
    good = {
        "det_sequences": ["beach", "beach"],
        "noun_chunks": [["a beach", "beach"]],
        "detections": {"beach": [[1, [0.0, 148.8, 345.5, 426.3]]]},
        "split": "train",
    }
    annotations = {"7": {RIDER_KEY: release_entry(**changes), "a beach": good}}
    with pytest.raises(
        InputError, match=rf"^\S+coco_entities\.json, image 7, caption '{RIDER_KEY}': .*{reason}[^(]*\(--skip-bad[^(]*$"
    ):
        read(annotations, detections=None, mode=mode)
    errors = ReadErrors(skip=True)
    (image,) = read(annotations, detections=None, mode=mode, errors=errors)
    assert [caption.text for caption in image.captions] == ["a beach"]
    assert len(errors.messages) == 1


DOG = {"det_sequences": ["dog"], "noun_chunks": [["dog", "dog"]], "detections": {"dog": [[6, [0, 0, 1, 1]]]}}
HOUND = {"det_sequences": ["dog"], "noun_chunks": [["hound", "dog"]], "detections": {"dog": [[6, [0, 0, 2, 2]]]}}


@pytest.mark.parametrize(
    ("captions", "reason"),
    [
        pytest.param([], "the image is a list", id="not an object"),
        pytest.param({}, "the image has no captions", id="no captions"),
        pytest.param(
            {"dog": {**DOG, "split": "train"}, "hound": {**DOG, "split": "val"}},
            "its captions are in 2 splits",
            id="two splits",
        ),
        pytest.param(
            {"dog": {**DOG, "split": "train"}, "hound": {**HOUND, "split": "train"}},
            "detection 6 is listed with two boxes",
            id="one detection, two boxes",
        ),
        pytest.param(
            {"dog": {**DOG, "det_sequences": ["_"], "noun_chunks": [], "detections": {}, "split": "train"}},
            "no caption lists a detection",
            id="no regions",
        ),
    ],
)
def test_a_bad_image_of_the_release_file_is_an_error_or_skipped(read, captions, reason):
    annotations = {"7": captions, "8": {"dog": {**DOG, "split": "test"}}}
    with pytest.raises(InputError, match=rf"coco_entities\.json, image 7: {reason}"):
        read(annotations, detections=None)
    errors = ReadErrors(skip=True)
    (image,) = read(annotations, detections=None, errors=errors)
    assert (image.image_id, image.split) == ("8", "test")
    assert len(errors.messages) == 1


@pytest.mark.parametrize(
    ("classes_of_image", "reason"),
    [
        pytest.param(["dog"], "detection 6 of 'dog' is beyond the 1 of the store", id="too few detections"),
        pytest.param(["cat"] * 7, "detection 6 is a 'cat' in the store and a 'dog' here", id="other detections"),
    ],
)
def test_detections_of_another_detector_are_an_error(read, classes_of_image, reason):
    store = Store({"42": classes_of_image})
    with pytest.raises(InputError, match=reason):
        read({"42": {"dog": {**DOG, "split": "train"}}}, detections=store)


@pytest.mark.parametrize(
    ("image_id", "reason"),
    [
        pytest.param("43", "image 43: not in the Karpathy file", id="not in the split"),
        pytest.param("44", "image 44 is not among the detections: .*run the detector", id="no detections"),
        pytest.param("45", "image 45 has no detection, expected", id="no regions"),
    ],
)
def test_an_image_missing_from_another_file_is_an_error_or_skipped(read, image_id, reason):
    annotations = {image_id: {"a dog": [["a dog", "dog"]]}, "42": {"a dog": [["a dog", "dog"]]}}
    captions = {"42": ["a dog"], "44": ["a dog"], "45": ["a dog"]}
    store = Store({**STORE.classes_of_image, "43": ["dog"], "45": []})
    with pytest.raises(InputError, match=reason):
        read(annotations, captions, detections=store)
    errors = ReadErrors(skip=True)
    assert [image.image_id for image in read(annotations, captions, detections=store, errors=errors)] == ["42"]
    assert len(errors.messages) == 1


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(None, "does not exist", id="missing"),
        pytest.param(b'{"42": ', "is not valid JSON .*line 1", id="truncated"),
        pytest.param(b'"\xe9"', "is not UTF-8 .* at byte 1", id="not UTF-8"),
        pytest.param(b"[]", "is a list", id="not an object"),
        pytest.param(b"[" * 100_000, "is nested too deeply", id="deep"),
        pytest.param(b"9" * 5000, "has a number of too many digits", id="5,000 digits"),
    ],
)
def test_an_unreadable_file_is_never_skipped(tmp_path, content, reason, skip):
    path = tmp_path / "coco_entities_release.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"coco_entities_release\.json.*{reason}"):
        read_coco_entities(path, None, detections=None, errors=ReadErrors(skip=skip))


def test_the_training_file_requires_splits_and_detections(read):
    annotations = {"42": {"a dog": [["a dog", "dog"]]}}
    with pytest.raises(InputError, match=r"has no splits: give Karpathy's dataset_coco\.json"):
        read(annotations)
    with pytest.raises(InputError, match="has no boxes: give the region store"):
        read(annotations, {"42": ["a dog"]}, detections=None)
