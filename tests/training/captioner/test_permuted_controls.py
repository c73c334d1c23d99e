import torch

from sct.training.captioner.dataloader import control_noise, step_noise
from sct.training.captioner.permuted_controls import ControlOrder, draw_orders, num_draws

NUM_SLOTS = torch.tensor([1, 2, 3, 4]).repeat(500)
MAX_SLOTS = 4


def draw(permuted_share: float) -> ControlOrder:
    return draw_orders(NUM_SLOTS, control_noise(3, (len(NUM_SLOTS), num_draws(MAX_SLOTS)), 1), permuted_share)


def test_without_a_share_all_controls_are_in_the_order_of_mention():
    order, expected = draw(0.0), ControlOrder.of_mention(NUM_SLOTS, MAX_SLOTS)
    assert torch.equal(order.sets, expected.sets)
    assert torch.equal(order.num_slots, NUM_SLOTS)
    assert not order.is_permuted.any()


def test_the_share_of_permuted_controls_is_that_of_the_recipe():
    """But for orders that happen to be that of mention, one in forty of four region sets."""
    is_permuted = draw(0.3).is_permuted
    assert abs(float(is_permuted[NUM_SLOTS == 4].float().mean()) - 0.3) < 0.05
    assert not is_permuted[NUM_SLOTS == 1].any()


def test_controls_in_the_order_of_mention_are_not_permuted():
    order = draw(1.0)
    is_mention = (order.sets == torch.arange(MAX_SLOTS)).all(1) & (order.num_slots == NUM_SLOTS)
    assert is_mention.any()
    assert torch.equal(order.is_permuted, ~is_mention)


def test_each_control_has_distinct_region_sets_of_its_example():
    order = draw(1.0)
    for sets, kept, available in zip(order.sets.tolist(), order.num_slots.tolist(), NUM_SLOTS.tolist(), strict=True):
        assert 1 <= kept <= available
        assert sorted(sets) == list(range(MAX_SLOTS))
        assert set(sets[:available]) == set(range(available))


def test_orders_and_numbers_of_region_sets_are_uniform():
    """Of three sets: half of the controls have all, a sixth each number; all six orders are equally frequent."""
    order = draw(1.0)
    is_three = NUM_SLOTS == 3
    kept = torch.bincount(order.num_slots[is_three], minlength=4) / is_three.sum()
    torch.testing.assert_close(kept, torch.tensor([0.0, 1 / 6, 1 / 6, 2 / 3]), atol=0.06, rtol=0)
    orders = {tuple(sets[:3]) for sets in order.sets[is_three].tolist()}
    first = torch.bincount(order.sets[is_three, 0], minlength=4) / is_three.sum()
    assert len(orders) == 6
    torch.testing.assert_close(first, torch.tensor([1 / 3, 1 / 3, 1 / 3, 0.0]), atol=0.07, rtol=0)


def test_the_number_of_sets_does_not_depend_on_their_order():
    order = draw(1.0)
    is_four, starts_with_last = NUM_SLOTS == 4, order.sets[:, 0] == 3
    kept = [order.num_slots[is_four & chosen].float().mean() for chosen in (starts_with_last, ~starts_with_last)]
    assert abs(float(kept[0] - kept[1])) < 0.3


def test_slots_of_sets_invert_the_order():
    order = ControlOrder(torch.tensor([[2, 0, 1, 3]]), torch.tensor([2]), torch.tensor([True]))
    assert order.slots_of_sets().tolist() == [[1, 4, 0, 4]]


def test_controls_are_permuted_by_numbers_of_their_own():
    """Or the captions sampled of a control would depend on its order."""
    assert not torch.equal(control_noise(5, (8,), 1), step_noise(5, (8,), 1))
