"""Stop signals: the first sets a flag, the second stops at once."""

import signal
import subprocess
import sys
import threading

import pytest

from sct.training.distributed import STOP_SIGNALS, Interrupts

LOOP = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if pytest runs in the background
from sct.training.distributed import Interrupts
with Interrupts() as interrupts:
    print("ready", flush=True)
    while not interrupts.stop_requested:
        time.sleep(0.01)
    print("saving", flush=True)
    if sys.argv[1] == "slow":
        time.sleep(60)
print("saved", interrupts.stop_requested.name, flush=True)
"""


def _start(how: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", LOOP, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def test_no_signal():
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    with Interrupts() as interrupts:
        assert not interrupts.stop_requested
        assert [signal.getsignal(number) for number in STOP_SIGNALS] != before
    assert not interrupts.stop_requested
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before


def test_handlers_are_restored_after_an_error():
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    with pytest.raises(RuntimeError), Interrupts():
        raise RuntimeError
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before


@pytest.mark.parametrize("number", STOP_SIGNALS, ids=lambda number: number.name)
def test_first_signal_sets_the_flag(number):
    child = _start("fast")
    child.send_signal(number)
    out, _ = child.communicate()
    assert out == f"saving\nsaved {number.name}\n"
    assert child.returncode == 0


@pytest.mark.parametrize("second", STOP_SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("first", STOP_SIGNALS, ids=lambda number: number.name)
def test_second_signal_stops_at_once(first, second):
    child = _start("slow")
    child.send_signal(first)
    assert child.stdout.readline() == "saving\n"
    child.send_signal(second)
    out, err = child.communicate()
    assert out == ""
    assert child.returncode == -second  # Python kills itself with SIGINT after printing the traceback
    assert ("KeyboardInterrupt" in err) == (second is signal.SIGINT)


def test_signal_is_logged(caplog):
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
    assert interrupts.stop_requested is signal.SIGTERM
    assert "SIGTERM: saving a checkpoint, then stopping" in caplog.text


def test_other_threads_install_no_handlers():
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    seen = []

    def train():
        with Interrupts() as interrupts:
            seen.append(interrupts.stop_requested)
            seen.append([signal.getsignal(number) for number in STOP_SIGNALS])

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert seen == [None, before]
