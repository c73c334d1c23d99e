"""How exactly a run computes: what its recipe asks for, or what its stage needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

from sct.training.recipe import Recipe

Arithmetic = Literal["32-true", "tf32", "bf16-mixed"]


def arithmetic_of(recipe: Recipe) -> Arithmetic:
    """What is asked for; auto is float32 on a CPU, and on a GPU what the stage bears.

    The words stage learns in bfloat16 as well as in float32. Self-critical stages do not: captions are said in float16,
    and what is followed must come from the distribution they were said from. In bfloat16 they fell apart after a
    thousand steps (docs/training.md); TF32 has the mantissa of float16.
    """
    settings = recipe.device
    if settings.precision != "auto":
        return settings.precision
    on_gpu = settings.accelerator in ("auto", "cuda", "gpu") and torch.cuda.is_available()
    if not on_gpu:
        return "32-true"
    if recipe.objective.stage != "words":
        return "tf32"
    return "bf16-mixed" if torch.cuda.is_bf16_supported() else "tf32"


@contextmanager
def products_in(arithmetic: Arithmetic) -> Iterator[None]:
    """Let float32 products of a GPU be rounded to TF32 for a while, or not."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if arithmetic == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
