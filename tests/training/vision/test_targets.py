from dataclasses import replace
from pathlib import Path

import pytest

from sct.data.dataset import Dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.regions import Box, Region
from sct.training.vision.targets import NONE, VisionTargets, build_targets
from tests.factories import make_dataset, make_painted_dataset


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_painted_dataset(tmp_path_factory.mktemp("painted"))


def _build(dataset: Dataset) -> VisionTargets:
    return build_targets(dataset, min_class_count=1, min_noun_count=1, min_word_count=1)


def test_human_grounded_images(painted: Path) -> None:
    targets = _build(Dataset.open(painted))
    assert set(targets.class_names) == {"ball", "box"}
    assert set(targets.words) == {"ball", "box"}  # "a" and "near" are not visual
    assert targets.human_grounded.all()
    assert targets.is_region.sum(1).tolist() == [2] * 40
    assert (targets.boxes[targets.is_region] <= 1).all()
    assert (targets.region_class_weights[targets.is_region].sum(1) == 1).all()
    assert (targets.region_class_weights[~targets.is_region] == 0).all()
    names = targets.region_classes[targets.is_region][:, 0]
    words = targets.region_words[targets.is_region][:, 0]
    assert [targets.class_names[name] for name in names] == [targets.words[word] for word in words]
    assert (targets.image_classes[:, :2] != NONE).all()
    assert targets.is_boxed[targets.image_classes != NONE].all()


def _annotated_image() -> AnnotatedImage:
    """An image of COCO: boxes of classes, captions grounded automatically."""
    return AnnotatedImage(
        image_id="1",
        split="train",
        width=100,
        height=100,
        regions=(
            Region(Box(0, 0, 10, 10), "dog"),
            Region(Box(0, 0, 90, 90), "hot dog"),
            Region(Box(0, 0, 50, 50), "person"),
        ),
        captions=(
            Caption(
                "a tall chef eats a hot dog in the grass",
                ("a", "tall", "chef", "eats", "a", "hot", "dog", "in", "the", "grass"),
                (0, 0, 0, None, 1, 1, 1, None, 2, 2),
                (
                    Chunk("person", (2,), lemma="chef"),
                    Chunk("hot dog", (1,), lemma="dog"),
                    Chunk(None, (), lemma="grass"),
                ),
                auto_grounded=True,
            ),
        ),
    )


def test_annotated_classes_and_nouns_of_captions(tmp_path: Path) -> None:
    targets = _build(Dataset.open(make_dataset(tmp_path / "data", [_annotated_image()])))
    assert not targets.human_grounded.any()
    assert set(targets.class_names) == {"dog", "hot dog", "person", "chef", "grass"}
    names = [
        {targets.class_names[name]: float(weight) for name, weight in zip(classes, weights, strict=True) if weight}
        for classes, weights in zip(targets.region_classes[0, :3], targets.region_class_weights[0, :3], strict=True)
    ]
    # The largest region comes first; "a hot dog" says nothing about dogs. Any listed name may be the right one.
    assert names == [{"hot dog": 1.0}, {"chef": 1.0, "person": 1.0}, {"dog": 1.0}]
    words = [[targets.words[word] for word in row if word != NONE] for row in targets.region_words[0, :3]]
    assert [set(each) for each in words] == [{"hot", "dog"}, {"tall", "chef"}, set()]
    boxed = {
        targets.class_names[name]: bool(is_boxed)
        for name, is_boxed in zip(targets.image_classes[0], targets.is_boxed[0], strict=True)
        if name != NONE
    }
    assert boxed == {"chef": True, "dog": True, "grass": False}


def test_a_chunk_on_several_regions_gives_none_of_them_its_words(tmp_path: Path) -> None:
    """In "a tall chef", grounded automatically on all persons, the words are those of one of them, not known which."""
    image = _annotated_image()
    caption = image.captions[0]
    chunks = tuple(replace(chunk, regions=(1, 2)) if chunk.lemma == "chef" else chunk for chunk in caption.chunks or ())
    several = replace(image, captions=(replace(caption, chunks=chunks),))
    targets = _build(Dataset.open(make_dataset(tmp_path / "data", [several])))
    words = [{targets.words[word] for word in row if word != NONE} for row in targets.region_words[0, :3]]
    assert words == [{"hot", "dog"}, set(), set()]
    assert targets.class_names[targets.region_classes[0, 1, 0]] == "chef"


def test_nouns_of_one_image_do_not_change_those_of_the_image_before(tmp_path: Path) -> None:
    """A grounded chunk whose noun is no class name says nothing about the last class name of the image before."""
    chunk = Chunk("person", (2,), lemma="of")  # a function word is no class name
    caption = replace(_annotated_image().captions[0], chunks=(chunk, Chunk(None, ()), Chunk(None, ())))
    images = [_annotated_image(), replace(_annotated_image(), image_id="2", captions=(caption,))]
    targets = _build(Dataset.open(make_dataset(tmp_path / "data", images)))
    assert targets.class_names[-1] == "grass"
    assert not targets.is_boxed[0][targets.image_classes[0] == targets.class_names.index("grass")].any()


def test_nouns_are_the_distribution_of_a_region_of_no_frequent_class(tmp_path: Path) -> None:
    images = [replace(_annotated_image(), image_id=str(number)) for number in range(2)]
    images[1] = replace(images[1], regions=(*images[1].regions[:2], replace(images[1].regions[2], class_name="cook")))
    dataset = Dataset.open(make_dataset(tmp_path / "data", images))
    targets = build_targets(dataset, min_class_count=2, min_noun_count=1, min_word_count=1)
    assert "cook" not in targets.class_names
    assert targets.region_class_weights[1, 1].sum() == 1


def test_too_many_names(painted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sct.training.vision.targets._MAX_NAMES", 1)
    with pytest.raises(InputError, match="has 2 class names and 2 words, expected at most 1 of each: raise min_class"):
        _build(Dataset.open(painted))


def test_counts_that_leave_no_class_name(painted: Path) -> None:
    with pytest.raises(InputError, match="has 0 class names and 2 words that are frequent enough: lower"):
        build_targets(Dataset.open(painted), min_class_count=1000, min_noun_count=1000, min_word_count=1)
