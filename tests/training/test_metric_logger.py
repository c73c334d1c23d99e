"""Metric logger: one line per step, also after a kill and resume."""

import json
import sys

import pytest

from sct.errors import InputError
from sct.training.metric_logger import METRICS_FILE, TENSORBOARD, MetricLogger, read_metrics


@pytest.fixture(autouse=True)
def single_digit_writer_ids(monkeypatch):
    """TensorBoard sorts files of the same second by writer id as text, in which 10 comes before 9."""
    from tensorboard.summary.writer import event_file_writer

    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


def _scalars(folder) -> list[tuple[str, int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / TENSORBOARD))
    events.Reload()
    return sorted((tag, item.step, item.value) for tag in events.Tags()["scalars"] for item in events.Scalars(tag))


def test_empty_log(tmp_path):
    with MetricLogger(tmp_path, tensorboard=False) as metrics:
        assert metrics.flush() == 0
    assert list(read_metrics(tmp_path)) == []
    assert not (tmp_path / TENSORBOARD).exists()


def test_ranks_that_do_not_write_leave_no_files(tmp_path):
    with MetricLogger(tmp_path, length=5, step=1, writes=False) as metrics:
        metrics.log("train", 1, {"loss": 2.5})
        assert metrics.flush() == 0
    assert list(tmp_path.iterdir()) == []


def test_metrics_and_tensorboard_agree(tmp_path):
    with MetricLogger(tmp_path) as metrics:
        metrics.log("train", 1, {"loss": 2.5, "rate": 5e-4})
        metrics.log("validation", 2, {"CIDEr": 0.75, "sample": "a boy é", "METEOR": None})
        assert metrics.flush() == (tmp_path / METRICS_FILE).stat().st_size
    assert list(read_metrics(tmp_path)) == [
        {"kind": "train", "step": 1, "loss": 2.5, "rate": 5e-4},
        {"kind": "validation", "step": 2, "CIDEr": 0.75, "sample": "a boy é", "METEOR": None},
    ]
    assert _scalars(tmp_path) == [
        ("train/loss", 1, 2.5),
        ("train/rate", 1, pytest.approx(5e-4)),
        ("validation/CIDEr", 2, 0.75),
    ]


def test_lines_are_readable_immediately(tmp_path):
    with MetricLogger(tmp_path, tensorboard=False) as metrics:
        metrics.log("train", 1, {"loss": 2.5})
        assert [line["step"] for line in read_metrics(tmp_path)] == [1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")], ids=str)
def test_non_finite_values_become_null(tmp_path, value):
    with MetricLogger(tmp_path, tensorboard=False) as metrics:
        metrics.log("train", 1, {"loss": value})
    assert json.loads((tmp_path / METRICS_FILE).read_text(), parse_constant=pytest.fail) == {
        "kind": "train",
        "step": 1,
        "loss": None,
    }


def test_resume_truncates_lines_after_the_checkpoint(tmp_path):
    with MetricLogger(tmp_path) as metrics:
        metrics.log("train", 10, {"loss": 3.0})
        metrics.log("train", 20, {"loss": 2.0})
        length = metrics.flush()  # the checkpoint of step 20
        metrics.log("train", 30, {"loss": 9.0})
        metrics.log("train", 40, {"loss": 9.0})
    with MetricLogger(tmp_path, length=length, step=20) as metrics:
        metrics.log("train", 30, {"loss": 1.0})
    assert [(line["step"], line["loss"]) for line in read_metrics(tmp_path)] == [(10, 3.0), (20, 2.0), (30, 1.0)]
    assert _scalars(tmp_path) == [("train/loss", 10, 3.0), ("train/loss", 20, 2.0), ("train/loss", 30, 1.0)]


def test_run_without_checkpoint_starts_over(tmp_path):
    with MetricLogger(tmp_path, tensorboard=False) as metrics:
        metrics.log("train", 10, {"loss": 3.0})
    with MetricLogger(tmp_path, tensorboard=False) as metrics:
        assert metrics.flush() == 0
    assert (tmp_path / METRICS_FILE).read_bytes() == b""


def test_warns_about_missing_lines(tmp_path, caplog):
    (tmp_path / METRICS_FILE).write_text('{"step": 1}\n{"step": 2}\n{"st')
    with MetricLogger(tmp_path, length=500, step=3, tensorboard=False) as metrics:
        metrics.log("train", 4, {})
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2, 4]
    assert "has 28 bytes, the checkpoint expects 500: earlier lines are lost" in caplog.text


def test_incomplete_last_line_is_skipped_and_bad_lines_rejected(tmp_path):
    (tmp_path / METRICS_FILE).write_text('{"step": 1}\n{"st')
    assert list(read_metrics(tmp_path)) == [{"step": 1}]
    (tmp_path / METRICS_FILE).write_text('{"step": 1}\nstep 2\n')
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2 is not valid JSON"):
        list(read_metrics(tmp_path))


@pytest.mark.parametrize("name", ["kind", "step"])
def test_reserved_names_are_rejected(tmp_path, name):
    with (
        MetricLogger(tmp_path, tensorboard=False) as metrics,
        pytest.raises(InputError, match=f"got a metric named {name!r}"),
    ):
        metrics.log("train", 1, {name: 3})


def test_metrics_are_logged_without_tensorboard(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with MetricLogger(tmp_path) as metrics:
        metrics.log("train", 1, {"loss": 2.5})
        metrics.flush()
    assert [line["loss"] for line in read_metrics(tmp_path)] == [2.5]
    assert "show-control-and-tell[train]" in caplog.text
