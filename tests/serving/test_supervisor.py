"""The supervisor of worker processes that fail; each test runs one in a process of its own."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="several processes need Linux")

SUPERVISE = """
import os, signal, sys, time
import sct.serving.supervisor as supervisor
from sct.errors import InputError
from sct.serving.server import listen
supervisor._MAX_RESTART_DELAY = 0.01
supervisor.STOP_TIMEOUT = 0.2

def run_worker(worker):
    os.write(1, b"worker %d\\n" % worker.index)  # at once: print may write piece by piece, between those of the other
    {body}

listener = listen("127.0.0.1", 0)
sys.exit(supervisor.Supervisor(
    listener, 2, run_worker, on_ready=lambda: print("ready", flush=True), shared_image_bytes=0
).run())
"""


@dataclass(frozen=True)
class Ended:
    code: int
    lines: list[str]
    errors: list[str]


def supervise(body):
    """Run a supervisor of two workers with this body to its end."""
    source = SUPERVISE.format(body=body)
    found = subprocess.run([sys.executable, "-c", source], check=False, capture_output=True, text=True, timeout=120)
    return Ended(found.returncode, found.stdout.splitlines(), found.stderr.splitlines())


def test_the_first_worker_rejects_its_input():
    ended = supervise("raise InputError('got x, expected y: do z')")
    assert ended == Ended(2, ["worker 0"], ["sct: got x, expected y: do z"])


def test_the_first_worker_fails():
    ended = supervise("1 / 0")
    assert (ended.code, ended.lines, ended.errors[-1]) == (1, ["worker 0"], "ZeroDivisionError: division by zero")


def test_the_first_worker_is_killed():
    ended = supervise("os.kill(os.getpid(), signal.SIGKILL)")
    assert (ended.code, ended.lines) == (1, ["worker 0"])
    assert len(ended.errors) == 1
    assert "was killed by SIGKILL before it was ready" in ended.errors[0]


def test_workers_that_die_again_and_again():
    ended = supervise("worker.notify_ready(); time.sleep(0.1); os._exit(3)")
    assert ended.code == 1
    assert ended.errors[-1] == "every worker died 5 times, soon after its start: giving up"
    assert all("ended with exit code 3: another one starts" in line for line in ended.errors[:-1])
    starts = [ended.lines.count(f"worker {index}") for index in (0, 1)]
    assert min(starts) == 5
    assert max(starts) < 50


def test_one_worker_that_fails_does_not_stop_the_other():
    body = """if worker.index == 1:
        os._exit(3)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    worker.notify_ready()
    time.sleep(3)
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)"""
    ended = supervise(body)
    assert "ready" not in ended.lines
    assert ended.lines.count("worker 0") == 1
    assert ended.lines.count("worker 1") > 5
    assert not any("giving up" in line for line in ended.errors)


def test_a_worker_that_does_not_stop_is_killed():
    body = """signal.signal(signal.SIGTERM, signal.SIG_IGN)
    worker.notify_ready()
    if worker.index == 1:
        os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)"""
    ended = supervise(body)
    assert (ended.code, ended.errors) == (1, ["workers did not stop within 0.2 seconds: killing them"])


def test_a_second_ctrl_c_reaches_the_workers():
    body = """signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getppid(), signal.SIGINT))
    def stop(*_):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor may pass on both of them
        os.write(1, b"stopped at once\\n")
        os._exit(0)
    signal.signal(signal.SIGINT, stop)
    worker.notify_ready()
    if worker.index == 1:
        os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)"""
    ended = supervise(body)
    assert ended.code == 0
    assert ended.lines.count("stopped at once") == 2
