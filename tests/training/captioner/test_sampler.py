import pytest
import torch

from sct.training.captioner.dataloader import EpochSampler, step_noise


@pytest.mark.parametrize(("examples", "batch"), [(1, 1), (1, 3), (5, 2), (7, 7), (4, 9)])
def test_epochs_visit_every_example_once(examples, batch):
    sampler = EpochSampler(examples, batch, seed=3)
    rows = torch.cat([sampler.rows(step) for step in range(3 * examples)])
    for epoch in rows[: len(rows) // examples * examples].view(-1, examples):
        assert epoch.sort().values.tolist() == list(range(examples))


def test_rows_of_a_step_are_independent_of_earlier_calls():
    forward, anywhere = EpochSampler(50, 7, seed=1), EpochSampler(50, 7, seed=1)
    expected = [forward.rows(step).tolist() for step in range(20)]
    assert [anywhere.rows(step).tolist() for step in (19, 3, 11)] == [expected[step] for step in (19, 3, 11)]


def test_seeds_and_epochs_have_different_orders():
    first, second = (EpochSampler(50, 50, seed=seed) for seed in (1, 2))
    assert len({tuple(rows.tolist()) for rows in (first.rows(0), first.rows(1), second.rows(0), second.rows(1))}) == 4


def test_unshuffled_rows_are_sequential():
    sampler = EpochSampler(5, 3, seed=1, shuffle=False)
    assert torch.cat([sampler.rows(0), sampler.rows(1)]).tolist() == [0, 1, 2, 3, 4, 0]


@pytest.mark.parametrize(("epochs", "steps"), [(1.0, 34), (0.5, 17), (0.001, 1), (2.0, 67)])
def test_steps_of_epochs(epochs, steps):
    assert EpochSampler(100, 3, seed=1).steps(epochs) == steps


def test_step_noise_is_deterministic():
    first, again, other = step_noise(5, (4, 3), 1), step_noise(5, (4, 3), 1), step_noise(6, (4, 3), 1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert 0 <= first.min() <= first.max() < 1
