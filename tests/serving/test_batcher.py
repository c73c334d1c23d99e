"""What waits together is answered together; what is given up is never begun."""

import threading
import time

import pytest

from sct.errors import InputError
from sct.serving.batcher import Fault, Full, Stopped, Worker
from sct.serving.counters import Counters

LATE = 1e12


class Held:
    """Answers with twice what was asked, while it is let; 13 is bad input, 0 divides."""

    def __init__(self):
        self.may, self.begun, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, tasks):
        self.batches.append(list(tasks))
        self.begun.set()
        assert self.may.wait(60)
        return [InputError("13 is bad luck") if task == 13 else 2 * task + 0 // task for task in tasks]


@pytest.fixture
def held():
    return Held()


@pytest.fixture
def counters():
    return Counters()


@pytest.fixture
def worker(held, counters):
    made = Worker(held, counters, most_waiting=5, batch=3, patience=0.0)
    yield made
    held.may.set()
    made.stop()


def begin(worker, held, task=1):
    """Keep the thread busy."""
    first = worker.submit(task, LATE)
    assert held.begun.wait(60)
    return first


def test_what_waits_is_answered_together(worker, held, counters):
    first = begin(worker, held)
    others = [worker.submit(task, LATE) for task in (2, 3, 4, 5)]
    assert worker.num_waiting == 4
    held.may.set()
    assert [future.result(60) for future in (first, *others)] == [2, 4, 6, 8, 10]
    assert held.batches == [[1], [2, 3, 4], [5]]
    worker.stop()
    assert "sct_batch_requests_sum 5\nsct_batch_requests_count 3\n" in counters.text({})


def test_the_first_waits_for_company(held, counters):
    held.may.set()
    worker = Worker(held, counters, most_waiting=5, batch=2, patience=60.0)
    futures = [worker.submit(task, LATE) for task in (1, 2)]
    assert [future.result(60) for future in futures] == [2, 4]
    assert held.batches == [[1, 2]], "it would have waited a minute for a second, and for no third"
    worker.stop()


def test_few_heavy_things_are_done_at_a_time(held, counters):
    """Tasks above 10 need their tens digit done first."""
    worker = Worker(
        held,
        counters,
        most_waiting=9,
        batch=4,
        patience=0.0,
        heavy_part=lambda task: str(task // 10) if task >= 10 else None,
        most_heavy=1,
    )
    futures = [begin(worker, held)] + [worker.submit(task, LATE) for task in (21, 31, 2, 22, 32, 3, 4)]
    assert worker.num_heavy == 2
    held.may.set()
    assert [future.result(60) for future in futures] == [2, 42, 62, 4, 44, 64, 6, 8]
    assert held.batches == [[1], [21, 2, 22, 3], [31, 32, 4]], "the light ones pass, and what shares a part goes along"
    worker.stop()


def test_no_more_wait_than_may(worker, held):
    begin(worker, held)
    for task in range(1, 6):
        worker.submit(task, LATE)
    with pytest.raises(Full):
        worker.submit(6, LATE)


def test_a_fault_of_one_task_is_told_to_it_alone(worker, held):
    begin(worker, held)
    futures = [worker.submit(task, LATE) for task in (2, 13, 4)]
    held.may.set()
    with pytest.raises(InputError, match="13 is bad luck"):
        futures[1].result(60)
    assert [futures[0].result(60), futures[2].result(60)] == [4, 8]


def test_the_thread_outlives_a_fault_of_the_work(worker, held, caplog):
    begin(worker, held)
    futures = [worker.submit(task, LATE) for task in (2, 0, 4)]
    after = worker.submit(5, LATE)
    held.may.set()
    for future in futures:
        with pytest.raises(Fault):
            future.result(60)
    assert after.result(60) == 10
    assert "3 requests failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_what_is_cancelled_or_too_late_is_not_begun(worker, held, counters):
    begin(worker, held)
    given_up, late, kept = (worker.submit(2, LATE), worker.submit(3, time.monotonic() - 1), worker.submit(4, LATE))
    assert given_up.cancel()
    held.may.set()
    assert kept.result(60) == 8
    assert late.cancelled()
    assert held.batches == [[1], [4]]
    assert "sct_cancelled_total 2\n" in counters.text({})


def test_a_stop_finishes_what_waits_and_refuses_the_rest(worker, held):
    first = begin(worker, held)
    second = worker.submit(2, LATE)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    while not worker.is_stopping:
        time.sleep(0.001)
    with pytest.raises(Stopped):
        worker.submit(3, LATE)
    held.may.set()
    stopping.join(60)
    assert (first.result(0), second.result(0)) == (2, 4)
