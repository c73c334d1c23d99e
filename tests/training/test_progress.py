"""Progress lines and throughput."""

import logging

import pytest

from sct.training.metric_logger import ProgressLogger, Throughput, TrainingProgress


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        pytest.param(TrainingProgress(step=0, epoch=0.0), "step 0, epoch 0.00", id="nothing known"),
        pytest.param(
            TrainingProgress(step=1, epoch=0.5, losses={"loss": float("nan")}),
            "step 1, epoch 0.50, loss nan",
            id="NaN loss",
        ),
        pytest.param(
            TrainingProgress(step=1, epoch=1.0, seconds_left=59.6),
            "step 1, epoch 1.00, 1:00 left",
            id="rounded to a minute",
        ),
        pytest.param(
            TrainingProgress(step=1, epoch=1.0, seconds_left=-3.0), "step 1, epoch 1.00, 0:00 left", id="overdue"
        ),
    ],
)
def test_progress_line(progress, line):
    assert progress.line() == line


def test_progress_logger_interval(caplog):
    now = 0.0
    log = ProgressLogger(every_seconds=10, clock=lambda: now)
    with caplog.at_level(logging.INFO, logger="sct"):
        for step in range(26):  # a step a second: 0, 10 and 20 are due
            now = float(step)
            log(TrainingProgress(step=step, epoch=0.0))
    assert [record.message for record in caplog.records] == [f"step {step}, epoch 0.00" for step in (0, 10, 20)]


def test_throughput_of_recent_steps():
    now = 0.0
    throughput = Throughput(batch_size=100, clock=lambda: now, window=3)
    assert (throughput.examples_per_second, throughput.seconds_for(5)) == (None, None)
    throughput.update(0)
    assert (throughput.examples_per_second, throughput.seconds_for(5)) == (None, None)
    now = 8.0  # a slow first step
    throughput.update(1)
    assert (throughput.examples_per_second, throughput.seconds_for(5)) == (12.5, 40)
    now = 9.0
    throughput.update(2)
    now = 10.0
    throughput.update(5)  # drops step 0: 4 steps in 2 seconds
    assert (throughput.examples_per_second, throughput.seconds_for(5)) == (200, 2.5)
    throughput.reset()
    assert throughput.examples_per_second is None


def test_throughput_without_elapsed_time():
    throughput = Throughput(batch_size=100, clock=lambda: 1.0)
    throughput.update(0)
    throughput.update(0)
    assert (throughput.examples_per_second, throughput.seconds_for(5)) == (None, None)
    throughput.update(1)
    assert (throughput.examples_per_second, throughput.seconds_for(5)) == (None, 0)
