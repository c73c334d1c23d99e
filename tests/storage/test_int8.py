import pytest
import torch

from sct.storage.int8 import dequantize_int8, quantize_int8


def test_no_tensors() -> None:
    assert quantize_int8({}) == {}
    assert dequantize_int8({}) == {}


def test_small_tensors_are_float16_and_integers_unchanged() -> None:
    tensors = {"bias": torch.tensor([1.5, -2.25]), "count": torch.tensor([3, 4])}
    back = dequantize_int8(quantize_int8(tensors))
    assert torch.equal(back["bias"], tensors["bias"])
    assert back["bias"].dtype == torch.float32
    assert torch.equal(back["count"], tensors["count"])


@pytest.mark.parametrize("shape", [(200, 300), (64, 32, 3, 3)], ids=["matrix", "kernel"])
def test_error_is_at_most_half_a_quantization_step(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(shape, generator=generator) * torch.logspace(-3, 2, shape[0]).view(-1, *[1] * (len(shape) - 1))
    quantized = quantize_int8({"w": weight})
    assert quantized["w"].dtype == torch.int8
    error = (dequantize_int8(quantized)["w"] - weight).flatten(1).abs().amax(1)
    step = weight.flatten(1).abs().amax(1) / 127
    assert (error <= step * 0.501).all()


def test_rows_of_zeros() -> None:
    assert torch.equal(dequantize_int8(quantize_int8({"w": torch.zeros(128, 256)}))["w"], torch.zeros(128, 256))
