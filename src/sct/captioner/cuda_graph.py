"""A whole search recorded once as a CUDA graph and replayed: no time is lost between its many small kernels."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch

from sct.decoding.beam import beam_search
from sct.decoding.config import SearchConfig
from sct.decoding.output import Decoded, raise_if_no_hypothesis
from sct.errors import InputError
from sct.models.inputs import ControlBatch
from sct.models.interface import Decoder

MOST_RECORDINGS = 32
"""Sizes that are kept; each has memory of its own on the device."""
Search = Callable[[Decoder, Any, SearchConfig], Decoded]


@dataclass(frozen=True, slots=True, eq=False)
class _Recording:
    """A graph with the memory it reads and writes."""

    inputs: ControlBatch
    graph: torch.cuda.CUDAGraph
    result: Decoded


class CudaGraphSearch:
    """A search on a GPU for batches of any size; each new size (rounded up) is recorded when it first comes.

    SearchConfig must not stop early: a recorded search takes all its steps.
    """

    def __init__(self, captioner: Decoder, settings: SearchConfig, search: Search = beam_search) -> None:
        if settings.early_stop:
            raise InputError("a recorded search takes all its steps: give settings with early_stop=False")
        self._captioner = captioner
        self._settings = settings
        self._search = search
        self._recordings: dict[tuple[int, ...], _Recording] = {}

    def __call__(self, inputs: ControlBatch) -> Decoded:
        """The same as the search itself finds."""
        rows, (examples, slots, members) = len(inputs.regions), inputs.set_rows.shape
        shape = tuple(_rounded_up(size) for size in (rows, examples, slots, members))
        recording = self._recordings.pop(shape, None) or self._record(inputs, shape)
        self._recordings[shape] = recording  # the last one used stands last
        if len(self._recordings) > MOST_RECORDINGS:
            del self._recordings[next(iter(self._recordings))]
        _copy_into(recording.inputs, inputs)
        recording.graph.replay()
        raise_if_no_hypothesis(recording.result.scores[:examples] > -torch.inf)
        values = {field.name: getattr(recording.result, field.name)[:examples].clone() for field in fields(Decoded)}
        return Decoded(**values)

    def _record(self, inputs: ControlBatch, shape: tuple[int, ...]) -> _Recording:
        rows, examples, slots, members = shape
        device, dtype = inputs.regions.device, self._captioner.dtype
        features = inputs.regions.shape[1]
        static = ControlBatch(
            torch.zeros(rows, features, device=device, dtype=dtype),
            torch.zeros(examples, features, device=device, dtype=dtype),
            torch.zeros(examples, slots, members, device=device, dtype=torch.long),
            torch.zeros(examples, slots, members, device=device, dtype=torch.bool),
            torch.ones(examples, device=device, dtype=torch.long),
        )
        _copy_into(static, inputs)
        # A first run outside of the graph lets libraries set themselves up; on a stream of its own, as CUDA demands.
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._run(static)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = self._run(static)
        return _Recording(static, graph, result)

    def _run(self, inputs: ControlBatch) -> Decoded:
        return self._search(self._captioner, self._captioner.init_state(inputs), self._settings)


def _rounded_up(size: int) -> int:
    """A number of four leading bits that is not below: at most an eighth more than needed.

    >>> [_rounded_up(size) for size in (1, 7, 17, 100, 1000)]
    [1, 7, 18, 104, 1024]
    """
    grain = 1 << max(0, size.bit_length() - 4)
    return -(-size // grain) * grain


def _copy_into(static: ControlBatch, inputs: ControlBatch) -> None:
    """Fill the recorded memory; what is left over says nothing: no members, and controls of one empty set."""
    rows, (examples, slots, members) = len(inputs.regions), inputs.set_rows.shape
    static.regions[:rows].copy_(inputs.regions)
    static.image[:examples].copy_(inputs.image)
    static.set_mask.zero_()
    static.set_rows.zero_()  # no row that an earlier batch has left: should it hold no numbers, it would spoil this one
    static.set_rows[:examples, :slots, :members].copy_(inputs.set_rows)
    static.set_mask[:examples, :slots, :members].copy_(inputs.set_mask)
    static.num_slots.fill_(1)
    static.num_slots[:examples].copy_(inputs.num_slots)
