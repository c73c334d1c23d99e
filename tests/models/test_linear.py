import pytest
import torch
from torch import Tensor
from torch.nn import functional

from sct.models.linear import ProductFactory, dense, int8, int8_twice, pad_to_multiple

ROUNDED = [
    pytest.param(int8, 1.5e-2, id="int8"),
    pytest.param(int8_twice, 1e-4, id="int8_twice"),
]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def relative_error(found: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Of each row, against its product in double precision."""
    exact = rows.double() @ weight.double().T
    error = found.double() - (exact if bias is None else exact + bias.double())
    return error.norm(dim=1) / exact.norm(dim=1).clamp(min=1e-30)


@pytest.mark.parametrize("bias", [None, random(5)], ids=["no bias", "bias"])
@pytest.mark.parametrize("num_rows", [0, 1, 4])
def test_dense_is_exact(bias, num_rows):
    weight, rows = random(5, 8), random(num_rows, 8, seed=1)
    assert torch.equal(dense(weight, bias)(rows), functional.linear(rows, weight, bias))


def test_dense_does_not_follow_its_weight():
    weight, rows = random(5, 8), random(3, 8, seed=1)
    product = dense(weight)
    before = product(rows)
    weight.zero_()
    assert torch.equal(product(rows), before)


@pytest.mark.parametrize(("way", "allowed"), ROUNDED)
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
@pytest.mark.parametrize("shape", [(1, 2), (7, 16), (64, 300), (130, 1000)], ids=str)
@pytest.mark.parametrize("with_bias", [True, False], ids=["bias", "no bias"])
def test_rounding_errs_little(way: ProductFactory, allowed, bounded, shape, with_bias):
    for seed in range(3):
        weight, rows = random(*shape, seed=seed), random(20, shape[1], seed=seed + 10)
        bias = random(shape[0], seed=seed + 20) if with_bias else None
        rows = torch.tanh(rows) if bounded else 40 * rows
        product = way(weight, bias, bounded=bounded)
        if shape == (1, 2):  # a single sum can nearly cancel, so it is held against what goes into it
            error = (product(rows) - functional.linear(rows, weight, bias)).abs().squeeze(1)
            assert (error < allowed * rows.norm(dim=1) * weight.norm()).all()
        else:
            assert relative_error(product(rows), rows, weight, bias).max() < allowed


@pytest.mark.parametrize(("way", "allowed"), ROUNDED)
def test_each_output_has_a_scale_of_its_own(way: ProductFactory, allowed):
    sizes = torch.logspace(-4, 4, 9)
    weight, rows = random(9, 400) * sizes[:, None], random(30, 400, seed=1)
    found, exact = way(weight)(rows), rows @ weight.T
    assert ((found - exact).norm(dim=0) / exact.norm(dim=0)).max() < allowed


@pytest.mark.parametrize(("way", "allowed"), ROUNDED)
def test_rows_of_very_different_size_err_alike(way: ProductFactory, allowed):
    weight = random(30, 400)
    rows = random(9, 400, seed=1) * torch.logspace(-6, 6, 9)[:, None]
    assert relative_error(way(weight)(rows), rows, weight).max() < allowed


@pytest.mark.parametrize(
    ("way", "allowed"), [pytest.param(int8, 1.5e-2, id="int8"), pytest.param(int8_twice, 3e-3, id="int8_twice")]
)
def test_small_rows_within_bounds_keep_few_digits(way: ProductFactory, allowed):
    """Bounded inputs share one scale: what is small has only the steps of the second level."""
    weight, rows = random(30, 400), 0.01 * torch.tanh(random(9, 400, seed=1))
    assert relative_error(way(weight, bounded=True)(rows), rows, weight).max() < allowed


@pytest.mark.parametrize(("way", "_"), ROUNDED)
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
def test_the_bounds_themselves_are_no_exception(way: ProductFactory, _, bounded):
    """Everything as large as it may be, where whole sums of 8 bits would run over if they were held in too few."""
    weight = torch.ones(3, 512)
    weight[1] = -1
    weight[2, ::2] = -1
    rows = torch.stack([torch.ones(512), -torch.ones(512), torch.zeros(512)])
    found = way(weight, bounded=bounded)(rows)
    expected = torch.tensor([[512.0, -512.0, 0.0], [-512.0, 512.0, 0.0], [0.0, 0.0, 0.0]])
    assert torch.allclose(found, expected, atol=1e-2)


@pytest.mark.parametrize(("way", "_"), ROUNDED)
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
@pytest.mark.parametrize("bias", [None, random(6)], ids=["no bias", "bias"])
def test_nothing_in_nothing_out(way: ProductFactory, _, bounded, bias):
    expected = torch.zeros(6) if bias is None else bias
    rows = torch.tanh(random(3, 20))
    rows[1] = 0
    assert torch.allclose(way(random(6, 20), bias, bounded=bounded)(rows)[1], expected, atol=1e-7)
    weight = random(6, 20)
    weight[4] = 0
    assert torch.allclose(way(weight, bias, bounded=bounded)(rows)[:, 4], expected[4].expand(3), atol=1e-7)
    assert torch.allclose(way(0 * weight, bias, bounded=bounded)(rows), expected.expand(3, 6), atol=1e-7)


@pytest.mark.parametrize(("way", "_"), ROUNDED)
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
@pytest.mark.parametrize("mates", [0.0, 1e-3, 1.0], ids="mates of size {}".format)
def test_a_row_does_not_see_its_batch_mates(way: ProductFactory, _, bounded, mates):
    product = way(random(30, 50), bounded=bounded)
    rows = torch.tanh(random(4, 50, seed=1))
    others = mates * torch.tanh(random(7, 50, seed=2)) * (1 if bounded else 1000)
    together = product(torch.cat([others, rows, others]))[7:11]
    assert torch.allclose(together, product(rows), atol=1e-6)
    for row in range(4):
        assert torch.allclose(product(rows[row : row + 1])[0], together[row], atol=1e-6)


def test_two_levels_are_much_finer_than_one():
    weight, rows = random(50, 300), random(20, 300, seed=1)
    once, twice = (relative_error(way(weight)(rows), rows, weight).mean() for way in (int8, int8_twice))
    assert twice < once / 50


@pytest.mark.parametrize("way", [dense, int8, int8_twice])
def test_inputs_stay_as_they_were(way: ProductFactory):
    weight, bias, rows = random(5, 8), random(5), random(3, 8, seed=1)
    kept = weight.clone(), bias.clone(), rows.clone()
    product = way(weight, bias)
    assert torch.equal(product(rows), product(rows))
    assert all(torch.equal(now, before) for now, before in zip((weight, bias, rows), kept, strict=True))


@pytest.mark.parametrize("outputs", [8, 16, 3, 13])
def test_outputs_that_are_added_to_make_their_number_even_change_no_other(outputs: int) -> None:
    weight, bias, rows = torch.randn(outputs, 5), torch.randn(outputs), torch.randn(4, 5)
    more_weight, more_bias = pad_to_multiple(weight, bias)
    assert len(more_weight) == -(-outputs // 8) * 8
    product = torch.nn.functional.linear(rows, more_weight, more_bias)
    torch.testing.assert_close(product[:, :outputs], torch.nn.functional.linear(rows, weight, bias))
    assert not product[:, outputs:].any()
