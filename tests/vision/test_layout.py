import pytest
import torch

from sct.errors import InputError
from sct.vision.layout import LayoutEncoder


def test_features_depend_on_class_and_box():
    encoder = LayoutEncoder(("cat", "dog"), 16)
    boxes = torch.tensor([[0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.5], [0.2, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.5]])
    features = encoder(torch.tensor([0, 1, 0, -1]), boxes)
    assert features.shape == (4, 16)
    assert len({tuple(row) for row in features.tolist()}) == 4


def test_save_and_load(tmp_path):
    encoder = LayoutEncoder(("cat", "dog"), 16, seed=5)
    encoder.save(tmp_path / "encoder.safetensors")
    loaded = LayoutEncoder.load(tmp_path / "encoder.safetensors")
    assert loaded.class_names == ("cat", "dog")
    boxes = torch.rand(3, 4)
    assert torch.equal(loaded(torch.tensor([0, 1, -1]), boxes), encoder(torch.tensor([0, 1, -1]), boxes))


def test_damaged_files_are_refused(tmp_path):
    (tmp_path / "encoder.safetensors").write_bytes(b"no such thing")
    with pytest.raises(InputError, match=r"is damaged .*: copy it again"):
        LayoutEncoder.load(tmp_path / "encoder.safetensors")


def test_class_ids_of_another_numbering():
    encoder = LayoutEncoder(("cat", "dog"), 16)
    assert encoder.class_ids(("dog", "cat")).tolist() == [1, 0]
    with pytest.raises(InputError, match="got 1 of 2 classes that the layout encoder does not have, such as 'cow'"):
        encoder.class_ids(("dog", "cow"))
