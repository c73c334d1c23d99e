import pytest
import torch

from sct.training.captioner.config import DeviceSettings, Objective, Recipe
from sct.training.distributed import arithmetic_of, products_in


def _recipe(stage: str, precision: str = "auto", accelerator: str = "auto") -> Recipe:
    settings = {} if stage == "words" else {"start": "bundle"}
    return Recipe(
        data="x",
        out="y",
        objective=Objective(stage=stage),
        device=DeviceSettings(precision=precision, accelerator=accelerator),
        **settings,
    )


@pytest.mark.parametrize(
    ("stage", "precision", "has_gpu", "has_bf16", "expected"),
    [
        ("words", "auto", False, False, "32-true"),
        ("cider", "auto", False, False, "32-true"),
        ("words", "auto", True, True, "bf16-mixed"),
        ("words", "auto", True, False, "tf32"),
        ("cider", "auto", True, True, "tf32"),
        ("cider_and_nw", "auto", True, True, "tf32"),
        ("cider", "bf16-mixed", True, True, "bf16-mixed"),
        ("words", "32-true", True, True, "32-true"),
    ],
)
def test_what_is_asked_for_or_what_the_stage_needs(monkeypatch, stage, precision, has_gpu, has_bf16, expected) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: has_bf16)
    assert arithmetic_of(_recipe(stage, precision)) == expected


def test_a_cpu_beside_a_gpu_computes_in_float32(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert arithmetic_of(_recipe("words", accelerator="cpu")) == "32-true"


@pytest.mark.parametrize(
    ("arithmetic", "expected"), [("tf32", "high"), ("32-true", "highest"), ("bf16-mixed", "highest")]
)
def test_products_are_rounded_only_within(arithmetic, expected) -> None:
    before = torch.get_float32_matmul_precision()
    with products_in(arithmetic):
        assert torch.get_float32_matmul_precision() == expected
    assert torch.get_float32_matmul_precision() == before
