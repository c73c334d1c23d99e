"""The journal: one line a measurement, none twice after a run was killed and went on."""

import json
import sys

import pytest

from sct.errors import InputError
from sct.training.metric_logger import METRICS, TENSORBOARD, MetricLogger, read_journal


@pytest.fixture(autouse=True)
def numbered_from_one_digit(monkeypatch):
    """TensorBoard reads files of one second by the writer's number as text, in which 10 comes before 9."""
    from tensorboard.summary.writer import event_file_writer

    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


def _scalars(folder) -> list[tuple[str, int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / TENSORBOARD))
    events.Reload()
    return sorted((tag, item.step, item.value) for tag in events.Tags()["scalars"] for item in events.Scalars(tag))


def test_an_empty_journal(tmp_path):
    with MetricLogger(tmp_path, tensorboard=False) as journal:
        assert journal.settle() == 0
    assert list(read_journal(tmp_path)) == []
    assert not (tmp_path / TENSORBOARD).exists()


def test_a_process_that_does_not_write_leaves_nothing(tmp_path):
    with MetricLogger(tmp_path, length=5, step=1, writes=False) as journal:
        journal.record("train", 1, {"loss": 2.5})
        assert journal.settle() == 0
    assert list(tmp_path.iterdir()) == []


def test_lines_and_scalars_say_the_same(tmp_path):
    with MetricLogger(tmp_path) as journal:
        journal.record("train", 1, {"loss": 2.5, "rate": 5e-4})
        journal.record("validation", 2, {"CIDEr": 0.75, "sample": "a boy é", "METEOR": None})
        assert journal.settle() == (tmp_path / METRICS).stat().st_size
    assert list(read_journal(tmp_path)) == [
        {"kind": "train", "step": 1, "loss": 2.5, "rate": 5e-4},
        {"kind": "validation", "step": 2, "CIDEr": 0.75, "sample": "a boy é", "METEOR": None},
    ]
    assert _scalars(tmp_path) == [
        ("train/loss", 1, 2.5),
        ("train/rate", 1, pytest.approx(5e-4)),
        ("validation/CIDEr", 2, 0.75),
    ]


def test_a_line_can_be_read_at_once(tmp_path):
    with MetricLogger(tmp_path, tensorboard=False) as journal:
        journal.record("train", 1, {"loss": 2.5})
        assert [line["step"] for line in read_journal(tmp_path)] == [1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")], ids=str)
def test_what_json_lacks_is_null(tmp_path, value):
    with MetricLogger(tmp_path, tensorboard=False) as journal:
        journal.record("train", 1, {"loss": value})
    assert json.loads((tmp_path / METRICS).read_text(), parse_constant=pytest.fail) == {
        "kind": "train",
        "step": 1,
        "loss": None,
    }


def test_a_run_that_goes_on_drops_the_lost_future(tmp_path):
    with MetricLogger(tmp_path) as journal:
        journal.record("train", 10, {"loss": 3.0})
        journal.record("train", 20, {"loss": 2.0})
        length = journal.settle()  # the checkpoint of step 20
        journal.record("train", 30, {"loss": 9.0})
        journal.record("train", 40, {"loss": 9.0})
    with MetricLogger(tmp_path, length=length, step=20) as journal:
        journal.record("train", 30, {"loss": 1.0})
    assert [(line["step"], line["loss"]) for line in read_journal(tmp_path)] == [(10, 3.0), (20, 2.0), (30, 1.0)]
    assert _scalars(tmp_path) == [("train/loss", 10, 3.0), ("train/loss", 20, 2.0), ("train/loss", 30, 1.0)]


def test_a_run_without_a_checkpoint_begins_anew(tmp_path):
    with MetricLogger(tmp_path, tensorboard=False) as journal:
        journal.record("train", 10, {"loss": 3.0})
    with MetricLogger(tmp_path, tensorboard=False) as journal:
        assert journal.settle() == 0
    assert (tmp_path / METRICS).read_bytes() == b""


def test_lines_that_somebody_removed_are_missed_aloud(tmp_path, caplog):
    (tmp_path / METRICS).write_text('{"step": 1}\n{"step": 2}\n{"st')
    with MetricLogger(tmp_path, length=500, step=3, tensorboard=False) as journal:
        journal.record("train", 4, {})
    assert [line["step"] for line in read_journal(tmp_path)] == [1, 2, 4]
    assert "has 28 bytes, but the checkpoint knows 500: earlier lines are lost" in caplog.text


def test_a_half_written_line_is_left_out_and_a_bad_one_refused(tmp_path):
    (tmp_path / METRICS).write_text('{"step": 1}\n{"st')
    assert list(read_journal(tmp_path)) == [{"step": 1}]
    (tmp_path / METRICS).write_text('{"step": 1}\nstep 2\n')
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2: not JSON"):
        list(read_journal(tmp_path))


@pytest.mark.parametrize("name", ["kind", "step"])
def test_names_of_the_journal_itself_are_refused(tmp_path, name):
    with (
        MetricLogger(tmp_path, tensorboard=False) as journal,
        pytest.raises(InputError, match=f"{name!r}: expected other names"),
    ):
        journal.record("train", 1, {name: 3})


def test_without_tensorboard_the_lines_are_there_all_the_same(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with MetricLogger(tmp_path) as journal:
        journal.record("train", 1, {"loss": 2.5})
        journal.settle()
    assert [line["loss"] for line in read_journal(tmp_path)] == [2.5]
    assert "show-control-and-tell[train]" in caplog.text
