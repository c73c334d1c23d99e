import pytest
import torch

from sct.training.distributed import resolve_precision, tf32_matmul


@pytest.mark.parametrize(
    ("is_self_critical", "requested", "has_gpu", "has_bf16", "expected"),
    [
        (False, "auto", False, False, "32-true"),
        (True, "auto", False, False, "32-true"),
        (False, "auto", True, True, "bf16-mixed"),
        (False, "auto", True, False, "tf32"),
        (True, "auto", True, True, "tf32"),
        (True, "bf16-mixed", True, True, "bf16-mixed"),
        (False, "32-true", True, True, "32-true"),
    ],
)
def test_resolve_precision(monkeypatch, is_self_critical, requested, has_gpu, has_bf16, expected) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: has_bf16)
    assert resolve_precision(requested, "auto", is_self_critical=is_self_critical) == expected


def test_cpu_accelerator_beside_a_gpu_uses_float32(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_precision("auto", "cpu", is_self_critical=False) == "32-true"


@pytest.mark.parametrize(("enabled", "expected"), [(True, "high"), (False, "highest")])
def test_tf32_matmul_applies_inside_the_block_only(enabled, expected) -> None:
    before = torch.get_float32_matmul_precision()
    with tf32_matmul(enabled):
        assert torch.get_float32_matmul_precision() == expected
    assert torch.get_float32_matmul_precision() == before
