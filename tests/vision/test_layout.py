import pytest
import torch

from sct.errors import InputError
from sct.vision.layout import LayoutEncoder


def test_class_and_place_make_the_feature():
    encoder = LayoutEncoder(("cat", "dog"), 16)
    boxes = torch.tensor([[0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.5], [0.2, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.5]])
    features = encoder(torch.tensor([0, 1, 0, -1]), boxes)
    assert features.shape == (4, 16)
    assert len({tuple(row) for row in features.tolist()}) == 4


def test_comes_back_from_a_file(tmp_path):
    encoder = LayoutEncoder(("cat", "dog"), 16, seed=5)
    encoder.save(tmp_path / "encoder.safetensors")
    loaded = LayoutEncoder.load(tmp_path / "encoder.safetensors")
    assert loaded.class_names == ("cat", "dog")
    boxes = torch.rand(3, 4)
    assert torch.equal(loaded(torch.tensor([0, 1, -1]), boxes), encoder(torch.tensor([0, 1, -1]), boxes))


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "encoder.safetensors").write_bytes(b"no such thing")
    with pytest.raises(InputError, match="is no whole encoder of regions"):
        LayoutEncoder.load(tmp_path / "encoder.safetensors")


def test_classes_of_a_dataset_by_name():
    encoder = LayoutEncoder(("cat", "dog"), 16)
    assert encoder.numbers_of(("dog", "cat")).tolist() == [1, 0]
    with pytest.raises(InputError, match="class 'cow' is unknown to this region encoder"):
        encoder.numbers_of(("dog", "cow"))
