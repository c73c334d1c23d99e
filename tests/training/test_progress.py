"""The line that says how a run is getting on."""

import logging

import pytest

from sct.training.metric_logger import Progress, ProgressLog, Throughput


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        pytest.param(Progress(step=0, epoch=0.0), "step 0, epoch 0.00", id="nothing known yet"),
        pytest.param(
            Progress(step=1, epoch=0.5, losses={"loss": float("nan")}),
            "step 1, epoch 0.50, loss nan",
            id="a loss that is no number",
        ),
        pytest.param(Progress(step=1, epoch=1.0, seconds_left=59.6), "step 1, epoch 1.00, 1:00 left", id="a minute"),
        pytest.param(Progress(step=1, epoch=1.0, seconds_left=-3.0), "step 1, epoch 1.00, 0:00 left", id="overdue"),
    ],
)
def test_a_line_tells_what_is_known(progress, line):
    assert progress.line() == line


def test_lines_are_logged_now_and_then(caplog):
    now = 0.0
    log = ProgressLog(every_seconds=10, clock=lambda: now)
    with caplog.at_level(logging.INFO, logger="sct"):
        for step in range(26):  # a step a second: 0, 10 and 20 are due
            now = float(step)
            log(Progress(step=step, epoch=0.0))
    assert [record.message for record in caplog.records] == [f"step {step}, epoch 0.00" for step in (0, 10, 20)]


def test_the_pace_of_the_last_steps():
    now = 0.0
    pace = Throughput(captions_per_step=100, clock=lambda: now, remembered=3)
    assert (pace.captions_per_second, pace.seconds_for(5)) == (None, None)
    pace.mark(0)
    assert (pace.captions_per_second, pace.seconds_for(5)) == (None, None)
    now = 8.0  # a slow first step
    pace.mark(1)
    assert (pace.captions_per_second, pace.seconds_for(5)) == (12.5, 40)
    now = 9.0
    pace.mark(2)
    now = 10.0
    pace.mark(5)  # forgets step 0: 4 steps in 2 seconds
    assert (pace.captions_per_second, pace.seconds_for(5)) == (200, 2.5)
    pace.pause()
    assert pace.captions_per_second is None


def test_a_clock_that_stands_still_gives_no_speed():
    pace = Throughput(captions_per_step=100, clock=lambda: 1.0)
    pace.mark(0)
    pace.mark(0)
    assert (pace.captions_per_second, pace.seconds_for(5)) == (None, None)
    pace.mark(1)
    assert (pace.captions_per_second, pace.seconds_for(5)) == (None, 0)
