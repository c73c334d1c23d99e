"""Search captured once as a CUDA graph and replayed, which removes launch overhead between its many small kernels."""

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

MAX_CAPTURES = 32
"""Batch shapes that are kept (LRU); each has its own memory on the device."""
Search = Callable[[Decoder, Any, SearchConfig], Decoded]


@dataclass(frozen=True, slots=True, eq=False)
class _Capture:
    """A graph with its static input and output."""

    batch: ControlBatch
    graph: torch.cuda.CUDAGraph
    result: Decoded


class CudaGraphSearch:
    """Search on a GPU for batches of any shape; each new shape, rounded up, is captured on first use.

    Needs ``early_stop=False``: a graph takes a fixed number of steps.
    """

    def __init__(self, decoder: Decoder, config: SearchConfig, search: Search = beam_search) -> None:
        if config.early_stop:
            raise InputError(
                "got early_stop=True, but a CUDA graph takes a fixed number of steps: use early_stop=False"
            )
        self._decoder = decoder
        self._config = config
        self._search = search
        self._captures: dict[tuple[int, ...], _Capture] = {}

    def __call__(self, batch: ControlBatch) -> Decoded:
        """Return what the search itself returns."""
        rows, (examples, slots, members) = len(batch.regions), batch.set_rows.shape
        shape = tuple(_round_up(size) for size in (rows, examples, slots, members))
        capture = self._captures.pop(shape, None) or self._capture(batch, shape)
        self._captures[shape] = capture  # most recently used last
        if len(self._captures) > MAX_CAPTURES:
            del self._captures[next(iter(self._captures))]
        _copy_into(capture.batch, batch)
        capture.graph.replay()
        raise_if_no_hypothesis(capture.result.scores[:examples] > -torch.inf)
        static = {field.name: getattr(capture.result, field.name) for field in fields(Decoded)}
        values: dict[str, Any] = {
            name: None if value is None else value[:examples].clone() for name, value in static.items()
        }
        return Decoded(**values)

    def _capture(self, batch: ControlBatch, shape: tuple[int, ...]) -> _Capture:
        rows, examples, slots, members = shape
        device, dtype = batch.regions.device, self._decoder.dtype
        features = batch.regions.shape[1]
        static = ControlBatch(
            torch.zeros(rows, features, device=device, dtype=dtype),
            torch.zeros(examples, features, device=device, dtype=dtype),
            torch.zeros(examples, slots, members, device=device, dtype=torch.long),
            torch.zeros(examples, slots, members, device=device, dtype=torch.bool),
            torch.ones(examples, device=device, dtype=torch.long),
        )
        _copy_into(static, batch)
        # Warm-up outside the graph, on a side stream as CUDA requires, initialises cuBLAS and the like.
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._run(static)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = self._run(static)
        return _Capture(static, graph, result)

    def _run(self, batch: ControlBatch) -> Decoded:
        return self._search(self._decoder, self._decoder.init_state(batch), self._config)


def _round_up(size: int) -> int:
    """Round up to four significant bits, at most an eighth more.

    >>> [_round_up(size) for size in (1, 7, 17, 100, 1000)]
    [1, 7, 18, 104, 1024]
    """
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step


def _copy_into(static: ControlBatch, batch: ControlBatch) -> None:
    """Fill the static input; padding examples have one region set without members."""
    rows, (examples, slots, members) = len(batch.regions), batch.set_rows.shape
    static.regions[:rows].copy_(batch.regions)
    static.image[:examples].copy_(batch.image)
    static.set_mask.zero_()
    static.set_rows.zero_()  # an earlier batch's rows may point at NaN
    static.set_rows[:examples, :slots, :members].copy_(batch.set_rows)
    static.set_mask[:examples, :slots, :members].copy_(batch.set_mask)
    static.num_slots.fill_(1)
    static.num_slots[:examples].copy_(batch.num_slots)
