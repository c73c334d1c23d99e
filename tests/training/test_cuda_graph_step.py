import pytest
import torch
from torch import nn

from sct.errors import InputError
from sct.training.cuda_graph_step import LossModule, OptimizerStep, make_adam
from sct.training.loss import Loss


def make_step(objective, clip_norm: float = 0.0) -> OptimizerStep:
    model = nn.Linear(3, 2)
    nn.init.zeros_(model.bias)
    return OptimizerStep(LossModule(model, objective), make_adam(model, torch.device("cpu")), clip_norm=clip_norm)


def sum_loss(model, rows) -> Loss:
    return Loss(model.bias.sum() + rows.sum(), {"rows": rows.sum().float()})


def loss_with_infinite_gradient(model, rows) -> Loss:
    """For row 2 a finite loss, 0, with the infinite gradient of a square root at 0."""
    return Loss((model.bias * 0).sum().sqrt() if int(rows[0]) == 2 else model.bias.sum())


def test_no_means_before_the_first_step():
    step = make_step(sum_loss)
    assert step.means() == {}
    assert step.first_bad_step() is None


def test_means_since_the_last_call():
    step = make_step(sum_loss)
    for row in (1, 3):
        step([torch.tensor([row])], [0.0])
    assert step.means() == {"loss": 2.0, "rows": 2.0}  # the biases stay 0
    step([torch.tensor([7])], [0.0])
    assert step.means() == {"loss": 7.0, "rows": 7.0}


def test_sums_of_an_interrupted_run_are_kept_before_the_first_step():
    step, resumed, again = (make_step(sum_loss) for _ in range(3))
    assert step.sums() is None
    for row in (1, 3):
        step([torch.tensor([row])], [0.0])
    resumed.load_sums(step.sums())
    again.load_sums(resumed.sums())
    again([torch.tensor([5])], [0.0])
    assert again.means() == {"loss": 3.0, "rows": 3.0}
    assert again.sums() is None


@pytest.mark.parametrize("clip_norm", [0.0, 5.0])
def test_finite_loss_with_infinite_gradient_is_a_bad_step(clip_norm):
    step = make_step(loss_with_infinite_gradient, clip_norm)
    for row in (1, 2, 2):
        step([torch.tensor([row])], [1e-3])
    assert step.first_bad_step() == 1


def test_clips_the_global_gradient_norm():
    step = make_step(sum_loss, clip_norm=1e-3)
    step([torch.tensor([1])], [0.0])
    norm = torch.cat([p.grad.flatten() for p in step._parameters if p.grad is not None]).norm()
    assert float(norm) == pytest.approx(1e-3, rel=1e-2)


def test_one_learning_rate_per_parameter_group():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD([{"params": [model.weight], "lr": 0.0}, {"params": [model.bias], "lr": 0.0}])
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    step = OptimizerStep(LossModule(model, lambda model, rows: Loss(model(rows).sum())), optimizer)
    step([torch.ones(1, 3)], [0.0, 0.5])
    assert torch.equal(model.weight, before["weight"])
    torch.testing.assert_close(model.bias, before["bias"] - 0.5)


def test_adam_needs_a_trainable_parameter():
    with pytest.raises(InputError, match="no trainable parameter"):
        make_adam(nn.Linear(1, 1).requires_grad_(False), torch.device("cpu"))
