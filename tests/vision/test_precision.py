"""Tests of the precision of backbones at inference."""

from collections.abc import Iterator

import pytest
import torch

from sct.vision import precision
from sct.vision.precision import backbone_autocast


@pytest.fixture(autouse=True)
def _clear_cache() -> Iterator[None]:
    precision._multiplies_bfloat16.cache_clear()
    yield
    precision._multiplies_bfloat16.cache_clear()


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx2": True, "avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({"avx2": True, "avx512_bf16": False, "amx_bf16": False}, torch.float32),
        ({}, torch.float32),
    ],
)
def test_a_cpu_multiplies_in_bfloat16_if_it_has_instructions_for_it(
    capabilities: dict[str, bool], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    layer = torch.nn.Linear(4, 4)
    with backbone_autocast(torch.device("cpu")):
        assert layer(torch.ones(2, 4)).dtype == expected


def test_a_pytorch_that_does_not_tell_capabilities_stays_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    with backbone_autocast(torch.device("cpu")):
        assert torch.nn.Linear(4, 4)(torch.ones(2, 4)).dtype == torch.float32
