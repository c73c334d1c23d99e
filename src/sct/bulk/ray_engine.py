"""Workers as actors of a Ray cluster, each handed shard names; lost actors and nodes are replaced.

Ray Data is not used: it starts over after the loss of a driver, and hung with webdataset input.
"""

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from sct.bulk.engine import Engine, Event
from sct.bulk.shards import Shard
from sct.bulk.worker import Worker, WorkerConfig
from sct.errors import InputError, missing_extra

logger = logging.getLogger(__name__)

_STEPS = "steps"
"""Concurrency group, a thread of an actor, in which it answers how far it is."""
_CONNECT_SECONDS = 10.0
_RESOURCE_SECONDS = 5.0
"""Time between two looks at the resources of the cluster."""


@dataclass(slots=True)
class _Actor:
    handle: Any
    call: Any
    """Reference to the result of the call in progress; None if there is none."""
    is_ready: bool = False
    steps: int | None = None
    """Steps at the last answer; None: it has not answered yet, and may wait for a node."""
    steps_call: Any = None


class RayEngine(Engine):
    """Actors that are handed shards one at a time."""

    def __init__(
        self,
        *,
        threads: int,
        address: str | None = None,
        num_workers: int | None = None,
        gpus_each: float = 0.0,
    ) -> None:
        """Connect to a cluster; without an ``address``, to that of ``RAY_ADDRESS`` or to a new one on this computer.

        Each worker takes ``threads`` CPUs and ``gpus_each`` GPUs.
        ``num_workers``: None for as many as the CPUs and GPUs of the cluster allow, also as nodes come and go.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray  # noqa: PLC0415
        except ImportError as error:
            raise missing_extra("--engine ray", "ray", error) from error
        self._ray: Any = ray
        # Not None, for which Ray would also join a cluster that happens to run on this computer.
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        try:
            _check_address(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except (OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"no Ray cluster can be reached at {address} ({reason}): start one with ray start --head, or give "
                "another --address"
            ) from error
        self._resources = {"CPU": float(threads), **({"GPU": gpus_each} if gpus_each else {})}
        self._num_workers = num_workers
        remote = self._ray.remote(
            num_cpus=threads,
            num_gpus=gpus_each,
            max_restarts=0,
            max_task_retries=0,
            concurrency_groups={_STEPS: 1},  # an actor answers how far it is while it processes a shard
        )
        self._actor_class: Any = remote(Worker)
        self._actors: dict[int, _Actor] = {}
        self._next = 0
        self._capacity, self._looked = 1, -_RESOURCE_SECONDS

    def capacity(self) -> int:
        """Number of actors that the nodes of the cluster have room for, at most ``num_workers``."""
        if monotonic() - self._looked >= _RESOURCE_SECONDS:
            self._looked = monotonic()
            nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            fitting = sum(
                min(int(node.get(name, 0.0) / each) for name, each in self._resources.items()) for node in nodes
            )
            if not fitting and self._capacity:
                logger.warning("no node of the Ray cluster has room for a worker with %s: waiting", self._resources)
            self._capacity = fitting if self._num_workers is None else min(self._num_workers, fitting)
        return self._capacity

    def start_worker(self, config: WorkerConfig) -> int:
        """Create an actor, which waits until a node has room for it."""
        handle = self._actor_class.remote(config)
        self._actors[self._next] = _Actor(handle, handle.start.remote())
        self._next += 1
        return self._next - 1

    def submit(self, worker: int, shard: Shard) -> None:
        """Call an actor."""
        actor = self._actors[worker]
        actor.call = actor.handle.process.remote(shard)

    def wait(self, timeout: float) -> list[Event]:
        """Wait for the results of calls and the loss of actors."""
        calls = {actor.call: number for number, actor in self._actors.items() if actor.call is not None}
        if not calls:
            return []
        ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=timeout)
        more, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        return [self._event(calls[call], call) for call in dict.fromkeys([*ready, *more])]

    def _event(self, number: int, call: Any) -> Event:
        actor = self._actors[number]
        actor.call = None
        try:
            value = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            self._drop(number)
            return Event(worker=number, kind="lost", reason=_explain(error))
        if actor.is_ready:
            return Event(worker=number, kind="result", result=value)
        if value is not None:
            return Event(worker=number, kind="unusable", reason=value)
        actor.is_ready = True
        return Event(worker=number, kind="ready")

    def _drop(self, number: int) -> None:
        """Forget an actor, and free its resources should it still exist."""
        self._ray.kill(self._actors.pop(number).handle)

    def count_steps(self) -> Mapping[int, int]:
        """Steps at the last answer of each actor; asks those that have answered again."""
        for actor in self._actors.values():
            if actor.steps_call is not None and self._ray.wait([actor.steps_call], timeout=0)[0]:
                with suppress(self._ray.exceptions.RayError):  # ``wait`` reports a lost actor
                    actor.steps = self._ray.get(actor.steps_call)
                actor.steps_call = None
            if actor.steps_call is None:
                actor.steps_call = actor.handle.count_steps.options(concurrency_group=_STEPS).remote()
        return {number: actor.steps for number, actor in self._actors.items() if actor.steps is not None}

    def kill_worker(self, worker: int) -> str:
        """Kill an actor."""
        name = f"actor {self._actors[worker].handle._actor_id.hex()}"
        self._drop(worker)
        return name

    def close(self) -> None:
        """End all actors and leave the cluster."""
        for number in list(self._actors):
            self._drop(number)
        self._ray.shutdown()


def _check_address(address: str) -> None:
    """Raise if nothing listens at HOST:PORT: Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()


def _explain(error: Exception) -> str:
    """First sentence of Ray's long messages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
