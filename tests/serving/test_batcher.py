"""Dynamic batching, cancellation and shutdown."""

import asyncio
import threading
import time

import pytest

from sct.errors import InputError
from sct.serving.batcher import BoundedExecutor, DynamicBatcher, InternalError, QueueFull, ServerStopping
from sct.serving.counters import Counters
from tests.serving.helpers import wait_until

NO_DEADLINE = 1e12


class BlockingDouble:
    """Doubles its tasks once ``may_run`` is set; 13 is an input error, 0 an internal one."""

    def __init__(self):
        self.may_run, self.started, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, tasks):
        self.batches.append(list(tasks))
        self.started.set()
        assert self.may_run.wait(60)
        return [InputError("13 is unlucky") if task == 13 else 2 * task + 0 // task for task in tasks]


@pytest.fixture
def double():
    return BlockingDouble()


@pytest.fixture
def counters():
    return Counters()


@pytest.fixture
def batcher(double, counters):
    batcher = DynamicBatcher(double, counters, max_queue=5, max_batch=3, max_delay=0.0)
    yield batcher
    double.may_run.set()
    batcher.stop()


def occupy(batcher, double, task=1):
    """Keep the thread busy with a task."""
    first = batcher.submit(task, NO_DEADLINE)
    assert double.started.wait(60)
    return first


def test_queued_tasks_are_batched(batcher, double, counters):
    first = occupy(batcher, double)
    others = [batcher.submit(task, NO_DEADLINE) for task in (2, 3, 4, 5)]
    assert batcher.queue_length == 4
    double.may_run.set()
    assert [future.result(60) for future in (first, *others)] == [2, 4, 6, 8, 10]
    assert double.batches == [[1], [2, 3, 4], [5]]
    batcher.stop()
    assert "sct_batch_size_sum 5\nsct_batch_size_count 3\n" in counters.text({})


def test_first_task_waits_for_a_full_batch(double, counters):
    double.may_run.set()
    batcher = DynamicBatcher(double, counters, max_queue=5, max_batch=2, max_delay=60.0)
    futures = [batcher.submit(task, NO_DEADLINE) for task in (1, 2)]
    assert [future.result(60) for future in futures] == [2, 4]
    assert double.batches == [[1, 2]], "it waits up to a minute for a second task, not for a third"
    batcher.stop()


def test_new_images_per_batch_are_limited(double, counters):
    """The tens digit of a task stands for its image."""
    batcher = DynamicBatcher(
        double,
        counters,
        max_queue=9,
        max_batch=4,
        max_delay=0.0,
        encode_key=lambda task: str(task // 10) if task >= 10 else None,
        max_new_images=1,
    )
    futures = [occupy(batcher, double)] + [batcher.submit(task, NO_DEADLINE) for task in (21, 31, 2, 22, 32, 3, 4)]
    assert batcher.num_new_images == 2
    double.may_run.set()
    assert [future.result(60) for future in futures] == [2, 42, 62, 4, 44, 64, 6, 8]
    assert double.batches == [[1], [21, 2, 22, 3], [31, 32, 4]], (
        "tasks without a new image overtake, those with the same image join"
    )
    batcher.stop()


def test_full_queue_is_an_error(batcher, double):
    occupy(batcher, double)
    for task in range(1, 6):
        batcher.submit(task, NO_DEADLINE)
    with pytest.raises(QueueFull):
        batcher.submit(6, NO_DEADLINE)


def test_an_input_error_affects_its_task_only(batcher, double):
    occupy(batcher, double)
    futures = [batcher.submit(task, NO_DEADLINE) for task in (2, 13, 4)]
    double.may_run.set()
    with pytest.raises(InputError, match="13 is unlucky"):
        futures[1].result(60)
    assert [futures[0].result(60), futures[2].result(60)] == [4, 8]


def test_an_internal_error_affects_its_task_only(batcher, double, caplog):
    occupy(batcher, double)
    futures = [batcher.submit(task, NO_DEADLINE) for task in (2, 0, 4)]
    after = batcher.submit(5, NO_DEADLINE)
    double.may_run.set()
    assert [futures[0].result(60), futures[2].result(60), after.result(60)] == [4, 8, 10]
    with pytest.raises(InternalError):
        futures[1].result(60)
    assert double.batches == [[1], [2, 0, 4], [2], [0], [4], [5]], "run again one by one, before later tasks"
    assert "3 requests failed; running them one by one" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_thread_that_dies_is_replaced(counters, error):
    batches = []

    def run(tasks):
        batches.append(list(tasks))
        if 13 in tasks:
            raise error
        return [2 * task for task in tasks]

    batcher = DynamicBatcher(run, counters, max_queue=5, max_batch=3, max_delay=60.0, restart_delay=0.0)
    first = batcher._thread
    futures = [batcher.submit(task, NO_DEADLINE) for task in (2, 13, 4)]
    assert [futures[0].result(60), futures[2].result(60)] == [4, 8]
    with pytest.raises(InternalError):
        futures[1].result(60)
    assert batches == [[2, 13, 4], [2], [13], [4]]
    assert batcher._thread is not first
    batcher.stop()
    assert not first.is_alive()
    assert "sct_model_restarts_total 2\n" in counters.text({}), "once by the batch, once by the task alone"


def test_a_dead_thread_is_not_running(counters):
    def die(_):
        raise SystemExit

    batcher = DynamicBatcher(die, counters, max_queue=5, max_batch=1, max_delay=0.0, restart_delay=60.0)
    assert batcher.is_running
    with pytest.raises(InternalError):
        batcher.submit(1, NO_DEADLINE).result(60)
    wait_until(lambda: not batcher.is_running)
    stopping = threading.Thread(target=batcher.stop, daemon=True)
    stopping.start()
    stopping.join(60)
    assert not stopping.is_alive(), "a stopping server does not wait for the restart"


def test_cancelled_and_late_tasks_are_not_run(batcher, double, counters):
    occupy(batcher, double)
    cancelled = batcher.submit(2, NO_DEADLINE)
    late = batcher.submit(3, time.monotonic() - 1)
    active = batcher.submit(4, NO_DEADLINE)
    assert cancelled.cancel()
    double.may_run.set()
    assert active.result(60) == 8
    assert late.cancelled()
    assert double.batches == [[1], [4]]
    assert "sct_requests_cancelled_total 2\n" in counters.text({})


def test_late_tasks_are_not_run_again(counters):
    batches = []

    def run(tasks):
        batches.append(list(tasks))
        if len(tasks) > 1:
            time.sleep(max(0.0, deadline + 0.01 - time.monotonic()))
            raise ValueError
        return tasks

    batcher = DynamicBatcher(run, counters, max_queue=5, max_batch=3, max_delay=60.0)
    deadline = time.monotonic() + 0.5
    futures = [batcher.submit(task, late) for task, late in ((1, deadline), (2, NO_DEADLINE), (3, deadline))]
    assert futures[1].result(60) == 2
    for late in (futures[0], futures[2]):
        with pytest.raises(InternalError):
            late.result(60)
    batcher.stop()
    assert batches == [[1, 2, 3], [2]]
    assert "sct_requests_cancelled_total 2\n" in counters.text({})


def test_stop_ends_a_thread_that_keeps_dying(counters):
    """Its tasks fail, those cancelled before stay cancelled."""

    def encode_key(_):
        raise ValueError("no key")

    batcher = DynamicBatcher(
        list, counters, max_queue=5, max_batch=3, max_delay=0.0, encode_key=encode_key, restart_delay=0.01
    )
    future, cancelled = batcher.submit(1, NO_DEADLINE), batcher.submit(2, NO_DEADLINE)
    assert cancelled.cancel()
    stopping = threading.Thread(target=batcher.stop, daemon=True)
    stopping.start()
    with pytest.raises(InternalError):
        future.result(10)
    stopping.join(10)
    assert not stopping.is_alive()
    assert batcher.queue_length == 0
    assert cancelled.cancelled()


def test_calls_that_wait_as_the_pool_stops():
    started, may_run = threading.Event(), threading.Event()

    def block():
        started.set()
        return may_run.wait(60)

    async def run():
        executor = BoundedExecutor("test", threads=1, max_calls=2)
        calls = [asyncio.create_task(executor.run(block)) for _ in range(2)]
        await asyncio.to_thread(started.wait, 60)
        stopping = asyncio.create_task(asyncio.to_thread(executor.stop))
        [waiting] = await asyncio.gather(calls[1], return_exceptions=True)
        may_run.set()
        await stopping
        [after] = await asyncio.gather(executor.run(block), return_exceptions=True)
        return await calls[0], waiting, after

    running, waiting, after = asyncio.run(run())
    assert running is True
    assert isinstance(waiting, ServerStopping)
    assert isinstance(after, ServerStopping)


def test_stop_finishes_the_queue_and_rejects_new_tasks(batcher, double):
    first = occupy(batcher, double)
    second = batcher.submit(2, NO_DEADLINE)
    stopping = threading.Thread(target=batcher.stop)
    stopping.start()
    while not batcher.is_stopping:
        time.sleep(0.001)
    with pytest.raises(ServerStopping):
        batcher.submit(3, NO_DEADLINE)
    double.may_run.set()
    stopping.join(60)
    assert (first.result(0), second.result(0)) == (2, 4)
