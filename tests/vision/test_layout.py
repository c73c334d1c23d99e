import pytest
import torch

from sct.errors import InputError
from sct.vision.layout import FORMAT, LayoutEncoder


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


@pytest.mark.parametrize(
    ("tensors", "classes", "message"),
    [
        pytest.param({"class_embedding": torch.zeros(0, 2**34)}, '["cat"]', "got the feature size", id="width"),
        pytest.param({"class_embedding": torch.ones(9, 16)}, '["cat"]', r"expected \(2, 16\)", id="rows"),
        pytest.param({"class_embedding": torch.full((2, 16), torch.nan)}, '["cat"]', "not finite", id="NaN"),
        pytest.param({}, "[" * 50_000, "nested too deeply", id="deep"),
        pytest.param({}, "5", "its classes are 5, expected a list of names", id="a number"),
    ],
)
def test_files_that_are_not_as_written_are_refused(tensors, classes, message, tmp_path):
    sizes = {"class_embedding": torch.ones(2, 16), "geometry_projection": torch.ones(72, 16)}
    FORMAT.save_tensors(tmp_path / "encoder.safetensors", sizes | tensors, {"classes": classes})
    with pytest.raises(InputError, match=message):
        LayoutEncoder.load(tmp_path / "encoder.safetensors")


def test_class_ids_of_another_numbering():
    encoder = LayoutEncoder(("cat", "dog"), 16)
    assert encoder.class_ids(("dog", "cat")).tolist() == [1, 0]
    with pytest.raises(InputError, match="got 1 of 2 classes that the layout encoder does not have, such as 'cow'"):
        encoder.class_ids(("dog", "cow"))
