from pathlib import Path

import pytest

from sct.data.dataset import Dataset
from sct.training.vision.targets import NONE, VisionTargets, build_targets
from tests.factories import make_painted_dataset


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
