import numpy as np
import pytest

from sct.data.holdout import held_out_images

IDS = tuple(f"{number}.jpg" for number in range(40))


@pytest.mark.parametrize(
    ("fraction", "count"),
    [
        pytest.param(0.001, 1, id="at least one"),
        pytest.param(0.1, 3, id="a tenth of the candidates"),
    ],
)
def test_number_of_images(fraction, count):
    mask = held_out_images(IDS, range(30), fraction)
    assert (len(mask), mask.sum(), mask[30:].sum()) == (40, count, 0)


def test_a_larger_fraction_has_the_images_of_a_smaller_one_in_any_order():
    small, large = (held_out_images(IDS, range(30)[::order], 0.1 * n) for n, order in ((1, 1), (3, -1)))
    assert np.all(large[small])
    assert not np.array_equal(np.flatnonzero(large), np.arange(9)), "not the first ones"
