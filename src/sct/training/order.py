"""Which examples each step learns from, known from the seed and the step alone, so that a run can go on anywhere."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


class Order:
    """Epochs one after the other without a seam: a batch may end one and begin the next, so all have the same size."""

    def __init__(
        self,
        num_examples: int,
        batch_size: int,
        *,
        seed: int,
        shuffle: bool = True,
        repeats: Int[Tensor, " examples"] | None = None,
    ) -> None:
        """``repeats``: how often an epoch goes through each example; once if not given."""
        every = torch.arange(num_examples)
        self._examples = every if repeats is None else every.repeat_interleave(repeats)
        self._num_examples, self._batch_size, self._seed, self._shuffle = (
            len(self._examples), batch_size, seed, shuffle,
        )  # fmt: skip
        self._known: dict[int, Int[Tensor, " examples"]] = {}

    def rows(self, step: int) -> Int[Tensor, " batch"]:
        """Examples of a step, counted from 0.

        >>> order = Order(3, 2, seed=1)
        >>> torch.cat([order.rows(step) for step in range(3)]).view(2, 3).sort().values.tolist()
        [[0, 1, 2], [0, 1, 2]]
        """
        first, parts = step * self._batch_size, []
        missing = self._batch_size
        while missing:
            epoch, place = divmod(first, self._num_examples)
            parts.append(self._epoch(epoch)[place : place + missing])
            first += len(parts[-1])
            missing -= len(parts[-1])
        return torch.cat(parts)

    def epochs(self, step: int) -> float:
        """Epochs gone through before a step."""
        return step * self._batch_size / self._num_examples

    def steps(self, epochs: float) -> int:
        """Steps after which so many epochs are through, at least one."""
        return max(1, -int(-epochs * self._num_examples // self._batch_size))

    def _epoch(self, number: int) -> Int[Tensor, " examples"]:
        if number not in self._known:
            if not self._shuffle:
                order = self._examples
            else:
                order = self._examples[torch.randperm(self._num_examples, generator=_generator(self._seed, 0, number))]
            self._known = {key: kept for key, kept in self._known.items() if key == number - 1} | {number: order}
        return self._known[number]


def noise_of(step: int, shape: tuple[int, ...], seed: int) -> Float[Tensor, "..."]:
    """Random numbers of a step, from 0 to below 1; the same on every machine."""
    return torch.rand(shape, generator=_generator(seed, 1, step))


def _generator(seed: int, purpose: int, number: int) -> torch.Generator:
    # Far apart, so that neighbouring seeds, purposes and numbers share nothing.
    return torch.Generator().manual_seed((seed * 0x9E3779B97F4A7C15 + purpose * 0xC2B2AE3D27D4EB4F + number) % 2**63)
