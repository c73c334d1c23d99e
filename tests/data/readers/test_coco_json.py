import json

import pytest

from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.sources import SourceOptions, open_source
from sct.errors import InputError
from sct.regions import Box
from tests.regions.test_image_source import encode
from tests.storage.test_tar import write_tar

CATEGORIES = [{"id": 18, "name": "dog", "supercategory": "animal"}, {"id": 1, "name": "person"}]


def annotation(image_id, category, box, **fields):
    polygon = {"segmentation": [[1.5, 2.5, 3.5]], "area": 1.0, "iscrowd": 0}
    return {"image_id": image_id, "category_id": category, "bbox": box, "id": 1, **polygon, **fields}


DOG = annotation(9, 18, [10, 20, 30, 40])
MAN = annotation(9, 1, [0, 0, 100.5, 50], segmentation={"counts": [1, 2], "size": [80, 100]})


def write_year(folder, name, image_ids, annotations=(), *, prefix="", **document):
    """Captions and instances of a split as COCO writes them; an image without captions is listed too."""
    folder.mkdir(exist_ok=True)
    images = [
        {"id": number, "file_name": f"{prefix}{number:012}.jpg", "width": 100, "height": 80}
        for number in (*image_ids, 999)
    ]
    captions = [
        {"id": number * 10 + index, "image_id": number, "caption": text}
        for number in image_ids
        for index, text in enumerate(("A man's dog.", "A dog"))
    ]
    instances = {"images": images, "annotations": list(annotations), "categories": CATEGORIES, **document}
    (folder / f"instances_{name}.json").write_text(json.dumps(instances))
    (folder / f"captions_{name}.json").write_text(json.dumps({"images": images, "annotations": captions}))
    return folder


def read(path, **options):
    skipped = SkipCounts()
    images = list(open_source(path, SourceOptions(**options)).read(ReadErrors(), skipped))
    return images, skipped.counts()


@pytest.mark.parametrize(("year", "prefix"), [("2014", "COCO_train2014_"), ("2017", "")])
def test_captions_classes_and_boxes(tmp_path, year, prefix):
    folder = write_year(tmp_path / "annotations", f"train{year}", [9], [DOG, MAN], prefix=prefix)
    source = open_source(folder, SourceOptions())
    assert (source.kind, source.num_images, set(source.class_names)) == ("COCO", 2, {"dog", "person"})
    [image], skipped = read(folder)
    assert (image.image_id, image.split, image.width, image.height) == ("9", "train", 100, 80)
    assert image.file == f"{prefix}000000000009.jpg"
    assert [(region.class_name, region.box) for region in image.regions] == [
        ("dog", Box(10, 20, 40, 60)),
        ("person", Box(0, 0, 100, 50)),
    ]
    assert [caption.text for caption in image.captions] == ["A man's dog.", "A dog"]
    assert image.captions[0].words == ("a", "man", "'s", "dog")
    assert skipped == {}


def test_crowds_and_empty_boxes_are_left_out(tmp_path):
    boxes = [annotation(9, 1, [0, 0, 90, 70], iscrowd=1), annotation(9, 1, [5, 5, 3, 0]), DOG]
    [image], skipped = read(write_year(tmp_path, "val2017", [9], boxes))
    assert [region.class_name for region in image.regions] == ["dog"]
    assert skipped == {"boxes_of_crowds": 1, "boxes_without_area": 1}


def test_splits(tmp_path):
    """Those of the files, or Karpathy's; one file alone may be given."""
    write_year(tmp_path, "train2014", [9, 25])
    write_year(tmp_path, "val2014", [30])
    assert [(image.image_id, image.split) for image in read(tmp_path)[0]] == [
        ("9", "train"), ("25", "train"), ("30", "val"),
    ]  # fmt: skip
    assert [image.image_id for image in read(tmp_path / "captions_val2014.json")[0]] == ["30"]
    karpathy = [
        {"cocoid": number, "filename": f"{number}.jpg", "split": split, "sentences": [{"raw": "A dog."}]}
        for number, split in ((9, "val"), (30, "restval"))
    ]
    (tmp_path / "splits.json").write_text(json.dumps({"images": karpathy}))
    images, skipped = read(tmp_path, splits=tmp_path / "splits.json")
    assert [(image.image_id, image.split) for image in images] == [("9", "val"), ("30", "train")]
    assert skipped == {"images_outside_the_split": 1}


def test_images_without_a_file_are_left_out(tmp_path):
    """The files of 2017 name images otherwise than those of 2014; both are found."""
    folder = write_year(tmp_path / "annotations", "train2014", [9, 25, 30], prefix="COCO_train2014_")
    tar = write_tar(tmp_path / "a.tar", {"000000000009.png": encode(1), "COCO_train2014_000000000025.png": encode(2)})
    images, skipped = read(folder, images=(tar,))
    assert [image.file for image in images] == ["000000000009.png", "COCO_train2014_000000000025.png"]
    assert skipped == {"images_without_a_file": 1}


def test_unusable_images_can_be_skipped(tmp_path):
    write_year(
        tmp_path, "train2017", [9, 25], [annotation(9, 18, [10, 20, 3000, 40]), annotation(25, 18, [0, 0, 9, 9])]
    )
    with pytest.raises(InputError, match=r"captions_train2017\.json, image 9: box .* leaves the image"):
        read(tmp_path)
    errors = ReadErrors(skip=True)
    images = list(open_source(tmp_path, SourceOptions()).read(errors, SkipCounts()))
    assert ([image.image_id for image in images], len(errors.messages)) == (["25"], 1)


@pytest.mark.parametrize(
    ("annotations", "document", "message"),
    [
        pytest.param([7], {}, "annotation 1 is a int: expected an object", id="not an object"),
        pytest.param([annotation(9, 7, [1, 2, 3, 4])], {}, "annotation 1 has category 7", id="unknown category"),
        pytest.param([annotation(9, [1], [1, 2, 3, 4])], {}, r"has category \[1\]", id="a list as category"),
        pytest.param([annotation("9", 18, [1, 2, 3, 4])], {}, "'image_id' of annotation 1 is '9'", id="image as text"),
        pytest.param([annotation(9, 18, [1, 2, 3])], {}, "annotation 1 has bbox", id="three numbers"),
        pytest.param([annotation(9, 18, [1, 2, -3, 4])], {}, "annotation 1 has bbox", id="negative width"),
        pytest.param([annotation(9, 18, [1, 2, 10**400, 4])], {}, "annotation 1 has bbox", id="huge"),
        pytest.param([annotation(9, 18, [1, 2, float("nan"), 4])], {}, "annotation 1 has bbox", id="not a number"),
        pytest.param([], {"categories": None}, "'categories' is a NoneType", id="no categories"),
        pytest.param([], {"categories": [{"id": 1}]}, "a category has no 'name'", id="a category without a name"),
    ],
)
def test_malformed_files(tmp_path, annotations, document, message):
    write_year(tmp_path, "val2017", [9], annotations, **document)
    with pytest.raises(InputError, match=rf"instances_val2017\.json is not a COCO instances file: .*{message}"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("remove", "message"),
    [
        pytest.param("instances_train2014.json", "has no instances_train2014.json beside it", id="no instances"),
        pytest.param(None, "has captions of 2014 and 2017, which share images", id="two years"),
        pytest.param("captions_train2014.json", r"captions_dev2017\.json has an unknown name", id="unknown name"),
    ],
)
def test_incomplete_folders(tmp_path, remove, message):
    write_year(tmp_path, "train2014", [9])
    write_year(tmp_path, "dev2017" if remove == "captions_train2014.json" else "val2017", [25])
    if remove:
        (tmp_path / remove).unlink()
    with pytest.raises(InputError, match=message):
        open_source(tmp_path, SourceOptions())


def test_options_of_other_sources_are_refused(tmp_path):
    write_year(tmp_path, "val2017", [9])
    with pytest.raises(InputError, match="--mode does not apply to COCO's files"):
        open_source(tmp_path, SourceOptions(mode="reference"))
