import pytest
import torch

from sct.storage.int8 import quantize_int8, dequantize_int8


def test_nothing_packs_to_nothing() -> None:
    assert quantize_int8({}) == {}
    assert dequantize_int8({}) == {}


def test_small_tensors_keep_half_precision_and_whole_numbers_stay() -> None:
    tensors = {"bias": torch.tensor([1.5, -2.25]), "count": torch.tensor([3, 4])}
    back = dequantize_int8(quantize_int8(tensors))
    assert torch.equal(back["bias"], tensors["bias"])
    assert back["bias"].dtype == torch.float32
    assert torch.equal(back["count"], tensors["count"])


@pytest.mark.parametrize("shape", [(200, 300), (64, 32, 3, 3)], ids=["matrix", "kernel"])
def test_large_ones_are_off_by_at_most_half_a_step_of_their_row(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(shape, generator=generator) * torch.logspace(-3, 2, shape[0]).view(-1, *[1] * (len(shape) - 1))
    packed = quantize_int8({"w": weight})
    assert packed["w"].dtype == torch.int8
    off = (dequantize_int8(packed)["w"] - weight).flatten(1).abs().amax(1)
    step = weight.flatten(1).abs().amax(1) / 127
    assert (off <= step * 0.501).all()


def test_a_row_of_zeros_comes_back() -> None:
    assert torch.equal(dequantize_int8(quantize_int8({"w": torch.zeros(128, 256)}))["w"], torch.zeros(128, 256))
