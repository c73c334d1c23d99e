import pytest
import torch

from sct.models.config import CaptionerConfig
from sct.models.show_control_tell import build_show_control_tell
from sct.training.captioner.losses import Loss
from sct.training.cuda_graph_step import LossModule, TrainingStep, make_optimizer


def network():
    torch.manual_seed(1)
    return build_show_control_tell(
        CaptionerConfig(vocabulary_size=6, feature_size=3, word_size=2, hidden_size=2, attention_size=2)
    )


def step_on(objective, clip_norm: float = 0.0) -> TrainingStep:
    captioner = network()
    learner = LossModule(captioner, objective)
    optimiser = make_optimizer(captioner, torch.device("cpu"))
    return TrainingStep(learner, learner, optimiser, torch.Tensor.backward, clip_norm=clip_norm)


def plain(captioner, chosen, noise) -> Loss:
    total = captioner.vocab_projection.bias.sum() + chosen.sum()
    return Loss(total, {"chosen": chosen.sum().float()})


def with_endless_gradient(captioner, chosen, noise) -> Loss:
    """A finite loss, 0, whose gradient is not: the root of nothing."""
    return Loss((captioner.vocab_projection.bias * 0).sum().sqrt() if int(chosen[0]) == 2 else captioner.vocab_projection.bias.sum())


def test_nothing_to_report_yet():
    step = step_on(plain)
    assert step.report() == {}
    assert step.first_bad() is None


def test_reports_means_since_the_last_report():
    step = step_on(plain)
    for number in (1, 3):
        step(torch.tensor([number]), torch.zeros(()), 0.0)
    assert step.report() == {"loss": 2.0, "chosen": 2.0}  # biases are 0 and stay so
    step(torch.tensor([7]), torch.zeros(()), 0.0)
    assert step.report() == {"loss": 7.0, "chosen": 7.0}


@pytest.mark.parametrize("clip_norm", [0.0, 5.0])
def test_a_finite_loss_with_an_endless_gradient_is_bad(clip_norm):
    step = step_on(with_endless_gradient, clip_norm)
    for number in (1, 2, 2):
        step(torch.tensor([number]), torch.zeros(()), 1e-3)
    assert step.first_bad() == 1


def test_clips_the_gradient_over_all_weights():
    step = step_on(plain, clip_norm=1e-3)
    step(torch.tensor([1]), torch.zeros(()), 0.0)
    length = torch.cat([w.grad.flatten() for w in step._weights if w.grad is not None]).norm()
    assert float(length) == pytest.approx(1e-3, rel=1e-2)
