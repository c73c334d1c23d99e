"""Mean of vision encoders (``benchmarks/release/average_encoders.py``)."""

import pytest
import torch

from benchmarks.release.average_encoders import average
from sct.errors import InputError
from sct.vision.encoder import RegionVisionEncoder, load_vision
from tests.factories import make_region_network, make_vision_encoder


def test_the_mean_of_two_encoders(tmp_path):
    for seed in (1, 2):
        make_vision_encoder(seed).save(tmp_path / f"{seed}.safetensors")
    average([tmp_path / "1.safetensors", tmp_path / "2.safetensors"], tmp_path / "mean.safetensors")
    first, second, mean = (
        load_vision(tmp_path / f"{name}.safetensors").network.roi_fc2.weight for name in ("1", "2", "mean")
    )
    torch.testing.assert_close(mean, (first + second) / 2, atol=2e-3, rtol=0)  # rounded to 8 bits
    assert not torch.equal(first, second)


def test_encoders_of_other_names_are_refused(tmp_path):
    make_vision_encoder().save(tmp_path / "a.safetensors")
    RegionVisionEncoder(make_region_network(), ("red", "green", "lilac")).save(tmp_path / "b.safetensors")
    with pytest.raises(InputError, match=r"a\.safetensors and .*b\.safetensors differ in sizes or names"):
        average([tmp_path / "a.safetensors", tmp_path / "b.safetensors"], tmp_path / "mean.safetensors")
    assert not (tmp_path / "mean.safetensors").exists()
