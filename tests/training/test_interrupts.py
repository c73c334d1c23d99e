"""Signals: the first one is a wish, the second one is obeyed at once."""

import signal
import subprocess
import sys
import threading

import pytest

from sct.training.distributed import SIGNALS, Interrupts

LOOP = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs tests in the background has it ignored
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


def test_nobody_asks():
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interrupts() as interrupts:
        assert not interrupts.stop_requested
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert not interrupts.stop_requested
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_an_error_in_the_block_puts_everything_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(RuntimeError), Interrupts():
        raise RuntimeError
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_the_first_signal_is_a_wish(number):
    child = _start("fast")
    child.send_signal(number)
    out, _ = child.communicate()
    assert out == f"saving\nsaved {number.name}\n"
    assert child.returncode == 0


@pytest.mark.parametrize("second", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("first", SIGNALS, ids=lambda number: number.name)
def test_the_second_signal_is_obeyed(first, second):
    child = _start("slow")
    child.send_signal(first)
    assert child.stdout.readline() == "saving\n"
    child.send_signal(second)
    out, err = child.communicate()
    assert out == ""
    assert child.returncode == -second  # Python ends by its own hand with SIGINT after its traceback
    assert ("KeyboardInterrupt" in err) == (second is signal.SIGINT)


def test_the_wish_is_logged(caplog):
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
    assert interrupts.stop_requested is signal.SIGTERM
    assert "SIGTERM: saving a checkpoint before leaving" in caplog.text


def test_another_thread_catches_nothing():
    before = [signal.getsignal(number) for number in SIGNALS]
    seen = []

    def train():
        with Interrupts() as interrupts:
            seen.append(interrupts.stop_requested)
            seen.append([signal.getsignal(number) for number in SIGNALS])

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert seen == [None, before]
