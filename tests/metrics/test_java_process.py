"""LineProtocolProcess with small Python programs; no test needs Java."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sct.metrics.interface import MetricUnavailable
from sct.metrics.java_process import LineProtocolProcess, as_line, shared_process

UPPERCASE = """
import sys
for line in sys.stdin:
    print(line.strip().upper(), flush=True)
"""
# Creates a file at the end of its input, which a test can check after the parent is gone.
UPPERCASE_AND_MARK_EXIT = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print(line.strip().upper(), flush=True)
open(sys.argv[1], "w").close()
"""


def python(script, *arguments):
    return [sys.executable, "-c", script, *map(str, arguments)]


@pytest.fixture
def start_process():
    processes = []

    def start(script, *arguments):
        processes.append(LineProtocolProcess("Uppercaser", python(script, *arguments)))
        return processes[-1]

    yield start
    for process in processes:
        process.close()


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_file(path):
    """Wait up to a minute, for busy machines."""
    for _ in range(600):
        if path.exists():
            return True
        time.sleep(0.1)
    return False


def test_starts_on_the_first_request(start_process):
    process = start_process(UPPERCASE)
    assert process.pid is None
    process.close()


def test_empty_request(start_process):
    assert start_process(UPPERCASE).request([], 0) == []


def test_process_is_reused(start_process):
    process = start_process(UPPERCASE)
    assert process.request(["a dog", "a cat"], 2) == ["A DOG", "A CAT"]
    first = process.pid
    assert process.request(["naïve"], 1) == ["NAÏVE"]
    assert process.pid == first


def test_requests_larger_than_the_pipe_buffer(start_process):
    lines = ["x" * 10_000] * 500
    assert start_process(UPPERCASE).request(lines, 500, timeout=60) == [line.upper() for line in lines]


def test_large_stderr_does_not_block(start_process):
    script = "import sys; sys.stderr.write('no ' * 1_000_000); sys.stderr.flush(); print(input())"
    assert start_process(script).request(["a dog"], 1, timeout=60) == ["a dog"]


def test_restarted_after_one_death(start_process, tmp_path):
    script = """
import os, sys
line = input()
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    os._exit(3)
print(line)
"""
    assert start_process(script, tmp_path / "died").request(["a dog"], 1) == ["a dog"]


def test_restarted_after_death_between_requests(start_process):
    process = start_process(UPPERCASE)
    process.request(["a dog"], 1)
    first = process.pid
    os.kill(first, signal.SIGKILL)
    assert process.request(["a cat"], 1) == ["A CAT"]
    assert process.pid != first


def test_fails_after_two_deaths(start_process):
    process = start_process("import sys; sys.exit('out of memory: asked for ' + input())")
    with pytest.raises(
        MetricUnavailable, match=r"Uppercaser died twice .*exit status 1; stderr: .*out of memory: asked for a dog"
    ):
        process.request(["a dog"], 1)
    assert process.pid is None


def test_dies_before_reading_all_input(start_process):
    with pytest.raises(MetricUnavailable, match="exit status 7"):
        start_process("import os; os._exit(7)").request(["x" * 10_000] * 500, 500)


def test_hung_process_is_killed(start_process):
    process = start_process("import sys, time; print(input(), flush=True); time.sleep(1000)")
    process.request(["a dog"], 1)
    first = process.pid
    with pytest.raises(MetricUnavailable, match=r"Uppercaser did not reply for 0.5 seconds and was killed"):
        process.request(["a cat"], 1, timeout=0.5)
    assert process.pid is None
    assert not is_running(first)


def test_hangs_without_reading(start_process):
    with pytest.raises(MetricUnavailable, match="did not reply"):
        start_process("import time; time.sleep(1000)").request(["x" * 10_000] * 500, 500, timeout=0.5)


def test_unrequested_output_is_discarded(start_process):
    process = start_process("while True:\n  line = input()\n  print(line, flush=True)\n  print('and more', flush=True)")
    assert process.request(["a dog"], 1) == ["a dog"]
    while process._handle.replies.empty():
        time.sleep(0.01)
    assert process.request(["a cat"], 1) == ["a cat"]


def test_interrupted_request_leaves_no_replies(start_process):
    script = f"""
import os, sys
for line in sys.stdin:
    if line.strip() == "interrupt":
        os.kill(os.getppid(), {int(signal.SIGUSR1)})
    else:
        print(line.strip(), flush=True)
"""

    class InterruptedForTestError(Exception):
        pass

    def interrupt(*_):
        raise InterruptedForTestError

    process = start_process(script)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(InterruptedForTestError):
            process.request(["interrupt", "late"], 2)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert process.request(["a dog"], 1) == ["a dog"]


def test_close_and_restart(start_process, tmp_path):
    process = start_process(UPPERCASE_AND_MARK_EXIT, tmp_path / "exited")
    assert process.request(["a dog"], 2) == ["ready", "A DOG"]
    first = process.pid
    process.close()
    assert not is_running(first)
    assert (tmp_path / "exited").exists()
    assert process.request(["a cat"], 2) == ["ready", "A CAT"]


def test_close_process_that_ignores_eof(start_process, monkeypatch):
    monkeypatch.setattr("sct.metrics.java_process.SHUTDOWN_TIMEOUT", 0.1)
    process = start_process("import time; print(input(), flush=True); time.sleep(1000)")
    process.request(["a dog"], 1)
    first = process.pid
    process.close()
    assert not is_running(first)


def test_close_process_that_does_not_read(start_process, monkeypatch):
    monkeypatch.setattr("sct.metrics.java_process.SHUTDOWN_TIMEOUT", 0.1)
    process = start_process("import time; print('ready', flush=True); time.sleep(1000)")
    process.request(["x" * 10_000] * 500, 1)
    first = process.pid
    process.close()
    assert not is_running(first)


def test_threads_share_a_process(start_process):
    process = start_process(UPPERCASE)
    replies = {}

    def send(word):
        replies[word] = [process.request([word] * 50, 50) for _ in range(5)]

    threads = [threading.Thread(target=send, args=(word,)) for word in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == {word: [[word.upper()] * 50] * 5 for word in "abcd"}


@pytest.mark.parametrize("command", [["/nowhere/java"], [str(Path(__file__).parent)]], ids=["missing", "a folder"])
def test_program_that_cannot_start(command):
    with pytest.raises(MetricUnavailable, match="Uppercaser could not be started"):
        LineProtocolProcess("Uppercaser", command).request(["a dog"], 1)


def test_shared_process_per_command():
    first = shared_process("Uppercaser", python(UPPERCASE))
    assert shared_process("Uppercaser", python(UPPERCASE)) is first
    assert shared_process("Uppercaser", python(UPPERCASE, "other")) is not first


PROGRAM = """
import os, sys
from sct.metrics.java_process import shared_process
process = shared_process("Uppercaser", [sys.executable, "-c", {program!r}, sys.argv[1]])
print(process.request(["a dog"], 2), flush=True)
{then}
"""


def run_program(then, exit_mark):
    script = PROGRAM.format(program=UPPERCASE_AND_MARK_EXIT, then=then)
    return subprocess.run(python(script, exit_mark), capture_output=True, text=True, check=False)


def test_process_exits_with_the_program(tmp_path):
    done = run_program("", tmp_path / "exited")
    assert (done.stdout, done.stderr, done.returncode) == ("['ready', 'A DOG']\n", "", 0)
    assert (tmp_path / "exited").exists()


def test_process_exits_when_the_program_is_killed(tmp_path):
    done = run_program("os.kill(os.getpid(), 9)", tmp_path / "exited")
    assert done.returncode == -signal.SIGKILL
    assert wait_for_file(tmp_path / "exited")


def test_forked_child_has_its_own_process(tmp_path):
    then = """
child = os.fork()
own = shared_process("Uppercaser", [sys.executable, "-c", UPPERCASE, sys.argv[1]])
if not child:
    print(own is not process, own.request(["a cat"], 2), flush=True)
    sys.exit()
os.waitpid(child, 0)
print(own is process, process.request(["a cow"], 1), flush=True)
"""
    # Newer Python versions warn about forking with threads.
    done = run_program(
        f"import warnings; warnings.simplefilter('ignore'); UPPERCASE = {UPPERCASE_AND_MARK_EXIT!r}{then}",
        tmp_path / "exited",
    )
    assert done.stdout.splitlines() == ["['ready', 'A DOG']", "True ['ready', 'A CAT']", "True ['A COW']"]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        pytest.param([], "", id="no words"),
        pytest.param(["a", "café"], "a café", id="unchanged"),
        pytest.param(["a\nblack", "dog\r", "\x00"], "a black dog   ", id="line breaks"),
        pytest.param(["\ud83d", "dog"], "? dog", id="lone surrogate"),
    ],
)
def test_as_line(words, line):
    assert as_line(words) == line
