import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from sct.errors import InputError
from sct.models.linear import (
    DeferredGradLinear,
    Int8BatchLinear,
    Int8Linear,
    LinearFactory,
    check_int8,
    dense_linear,
    int8_linear,
    int8_linear_two_levels,
    pad_to_multiple,
)

INT8_FACTORIES = [
    pytest.param(int8_linear, 1.5e-2, id="int8"),
    pytest.param(int8_linear_two_levels, 1e-4, id="two levels"),
]


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def relative_error(found: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Of each row, against its product in double precision."""
    exact = rows.double() @ weight.double().T
    error = found.double() - (exact if bias is None else exact + bias.double())
    return error.norm(dim=1) / exact.norm(dim=1).clamp(min=1e-30)


@pytest.mark.parametrize("bias", [None, randn(5)], ids=["no bias", "bias"])
@pytest.mark.parametrize("num_rows", [0, 1, 4])
def test_dense_linear(bias, num_rows):
    weight, rows = randn(5, 8), randn(num_rows, 8, seed=1)
    torch.testing.assert_close(dense_linear(weight, bias)(rows), functional.linear(rows, weight, bias))


def test_dense_linear_copies_its_weight():
    weight, rows = randn(5, 8), randn(3, 8, seed=1)
    linear = dense_linear(weight)
    before = linear(rows)
    weight.zero_()
    assert torch.equal(linear(rows), before)


@pytest.mark.parametrize(("factory", "allowed"), INT8_FACTORIES)
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
@pytest.mark.parametrize("shape", [(1, 2), (7, 16), (64, 300), (130, 1000)], ids=str)
@pytest.mark.parametrize("with_bias", [True, False], ids=["bias", "no bias"])
def test_int8_rounding_error_is_small(factory: LinearFactory, allowed, bounded, shape, with_bias):
    for seed in range(3):
        weight, rows = randn(*shape, seed=seed), randn(20, shape[1], seed=seed + 10)
        bias = randn(shape[0], seed=seed + 20) if with_bias else None
        rows = torch.tanh(rows) if bounded else 40 * rows
        linear = factory(weight, bias, bounded=bounded)
        if shape == (1, 2):  # a single sum can nearly cancel, so it is held against what goes into it
            error = (linear(rows) - functional.linear(rows, weight, bias)).abs().squeeze(1)
            assert (error < allowed * rows.norm(dim=1) * weight.norm()).all()
        else:
            assert relative_error(linear(rows), rows, weight, bias).max() < allowed


@pytest.mark.parametrize(("factory", "allowed"), INT8_FACTORIES)
def test_int8_scales_are_per_output(factory: LinearFactory, allowed):
    sizes = torch.logspace(-4, 4, 9)
    weight, rows = randn(9, 400) * sizes[:, None], randn(30, 400, seed=1)
    found, exact = factory(weight)(rows), rows @ weight.T
    assert ((found - exact).norm(dim=0) / exact.norm(dim=0)).max() < allowed


@pytest.mark.parametrize(("factory", "allowed"), INT8_FACTORIES)
def test_int8_relative_error_does_not_depend_on_the_size_of_a_row(factory: LinearFactory, allowed):
    weight = randn(30, 400)
    rows = randn(9, 400, seed=1) * torch.logspace(-6, 6, 9)[:, None]
    assert relative_error(factory(weight)(rows), rows, weight).max() < allowed


@pytest.mark.parametrize(
    ("factory", "allowed"),
    [pytest.param(int8_linear, 1.5e-2, id="int8"), pytest.param(int8_linear_two_levels, 3e-3, id="two levels")],
)
def test_bounded_int8_is_coarser_for_small_rows(factory: LinearFactory, allowed):
    """Bounded inputs share one scale: small values have the resolution of the second level only."""
    weight, rows = randn(30, 400), 0.01 * torch.tanh(randn(9, 400, seed=1))
    assert relative_error(factory(weight, bounded=True)(rows), rows, weight).max() < allowed


@pytest.mark.parametrize(("factory", "_"), INT8_FACTORIES)
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
def test_int8_extreme_values_do_not_overflow(factory: LinearFactory, _, bounded):
    """All values at their bounds, where 16-bit accumulation would overflow."""
    weight = torch.ones(3, 512)
    weight[1] = -1
    weight[2, ::2] = -1
    rows = torch.stack([torch.ones(512), -torch.ones(512), torch.zeros(512)])
    found = factory(weight, bounded=bounded)(rows)
    expected = torch.tensor([[512.0, -512.0, 0.0], [-512.0, 512.0, 0.0], [0.0, 0.0, 0.0]])
    assert torch.allclose(found, expected, atol=1e-2)


@pytest.mark.parametrize(("factory", "_"), INT8_FACTORIES)
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
@pytest.mark.parametrize("bias", [None, randn(6)], ids=["no bias", "bias"])
def test_int8_zero_rows_and_weights_give_the_bias(factory: LinearFactory, _, bounded, bias):
    expected = torch.zeros(6) if bias is None else bias
    rows = torch.tanh(randn(3, 20))
    rows[1] = 0
    assert torch.allclose(factory(randn(6, 20), bias, bounded=bounded)(rows)[1], expected, atol=1e-7)
    weight = randn(6, 20)
    weight[4] = 0
    assert torch.allclose(factory(weight, bias, bounded=bounded)(rows)[:, 4], expected[4].expand(3), atol=1e-7)
    assert torch.allclose(factory(0 * weight, bias, bounded=bounded)(rows), expected.expand(3, 6), atol=1e-7)


@pytest.mark.parametrize(("factory", "_"), INT8_FACTORIES)
@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
@pytest.mark.parametrize("mates", [0.0, 1e-3, 1.0], ids="mates of size {}".format)
def test_int8_rows_do_not_depend_on_each_other(factory: LinearFactory, _, bounded, mates):
    linear = factory(randn(30, 50), bounded=bounded)
    rows = torch.tanh(randn(4, 50, seed=1))
    others = mates * torch.tanh(randn(7, 50, seed=2)) * (1 if bounded else 1000)
    together = linear(torch.cat([others, rows, others]))[7:11]
    assert torch.allclose(together, linear(rows), atol=1e-6)
    for row in range(4):
        assert torch.allclose(linear(rows[row : row + 1])[0], together[row], atol=1e-6)


def test_two_int8_levels_are_much_finer_than_one():
    weight, rows = randn(50, 300), randn(20, 300, seed=1)
    once, twice = (
        relative_error(factory(weight)(rows), rows, weight).mean() for factory in (int8_linear, int8_linear_two_levels)
    )
    assert twice < once / 50


@pytest.mark.parametrize("factory", [dense_linear, int8_linear, int8_linear_two_levels])
def test_linears_do_not_modify_their_arguments(factory: LinearFactory):
    weight, bias, rows = randn(5, 8), randn(5), randn(3, 8, seed=1)
    kept = weight.clone(), bias.clone(), rows.clone()
    linear = factory(weight, bias)
    assert torch.equal(linear(rows), linear(rows))
    assert all(torch.equal(now, before) for now, before in zip((weight, bias, rows), kept, strict=True))


@pytest.mark.parametrize("outputs", [8, 16, 3, 13])
def test_padded_outputs_are_zero_and_change_no_other(outputs):
    weight, bias, rows = torch.randn(outputs, 5), torch.randn(outputs), torch.randn(4, 5)
    more_weight, more_bias = pad_to_multiple(weight, bias)
    assert len(more_weight) == -(-outputs // 8) * 8
    padded = functional.linear(rows, more_weight, more_bias)
    torch.testing.assert_close(padded[:, :outputs], functional.linear(rows, weight, bias))
    assert not padded[:, outputs:].any()


# Int8BatchLinear ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(torch.zeros(3, 64), id="zeros"),
        pytest.param(torch.rand(5, 64, generator=torch.Generator().manual_seed(1)), id="positive"),
        pytest.param(torch.randn(5, 64, generator=torch.Generator().manual_seed(1)), id="both signs"),
        pytest.param(torch.rand(5, 64, generator=torch.Generator().manual_seed(1)) + 3, id="far from 0"),
        pytest.param(torch.full((2, 64), 2.5), id="constant"),
        pytest.param(torch.rand(64, 5, generator=torch.Generator().manual_seed(1)).t(), id="column-major"),
    ],
)
def test_batch_int8_error_is_at_most_half_a_step_of_weights_and_inputs(rows):
    torch.manual_seed(0)
    layer = nn.Linear(64, 16)
    weight = layer.weight.detach()
    weight_step = weight.abs().amax(dim=1) / 127
    row_step = (rows.amax(dim=1) - rows.amin(dim=1))[:, None] / 255
    largest_weights = (weight.abs() + weight_step[:, None] / 2).sum(dim=1)
    bound = rows.abs().sum(dim=1)[:, None] * weight_step / 2 + row_step / 2 * largest_weights
    with torch.no_grad():
        error = (Int8BatchLinear(layer.weight, layer.bias)(rows) - layer(rows)).abs()
    assert (error <= bound + 1e-5).all()


def test_batch_int8_of_zero_weights_without_bias_is_zero():
    assert Int8BatchLinear(torch.zeros(3, 8))(torch.ones(2, 8)).tolist() == [[0.0] * 3] * 2


def test_batch_int8_rows_do_not_depend_on_each_other():
    linear, rows = Int8BatchLinear(randn(16, 64), randn(16)), randn(40, 64, seed=1)
    beside_large = linear(torch.cat([rows[:7], 1000 * rows[7:]]))[:7]
    torch.testing.assert_close(beside_large, linear(rows[:7]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kernel", "method"), [(Int8Linear, "__call__"), (Int8BatchLinear, "forward")])
def test_check_int8_raises_where_a_kernel_overflows(kernel, method, monkeypatch):
    check_int8()
    check_int8.cache_clear()
    # As without VNNI: 255 * 127 * 2 saturates 16 bits.
    monkeypatch.setattr(kernel, method, lambda _, rows: torch.full((len(rows), 16), 16.2))
    with pytest.raises(InputError, match="overflow on this CPU"):
        check_int8()
    check_int8.cache_clear()


# DeferredGradLinear -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_uses", [0, 1, 3])
def test_deferred_gradients_equal_those_of_autograd(num_uses):
    weight, bias = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    rows = torch.randn(num_uses, 5, 3, requires_grad=True)
    linear = DeferredGradLinear(weight, bias)
    found = torch.stack([torch.zeros(5, 4), *(linear(rows[use]) for use in range(num_uses))])
    expected = torch.stack([torch.zeros(5, 4), *(rows[use] @ weight.T + bias for use in range(num_uses))])
    torch.testing.assert_close(found, expected)
    if num_uses:
        gradients, expected_gradients = (
            torch.autograd.grad((outputs**2).sum(), (weight, bias, rows)) for outputs in (found, expected)
        )
        for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
            torch.testing.assert_close(gradient, expected_gradient)
