"""The handling of a process, tried on small Python programs: none of this needs Java."""

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

SHOUT = """
import sys
for line in sys.stdin:
    print(line.strip().upper(), flush=True)
"""
# Tells in a file that its input came to an end, so that a test can know of it when the parent is gone.
SHOUT_AND_TELL = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print(line.strip().upper(), flush=True)
open(sys.argv[1], "w").close()
"""


def python(script, *arguments):
    return [sys.executable, "-c", script, *map(str, arguments)]


@pytest.fixture
def started():
    processes = []

    def start(script, *arguments):
        processes.append(LineProtocolProcess("Shouter", python(script, *arguments)))
        return processes[-1]

    yield start
    for process in processes:
        process.close()


def runs(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def appears(path):
    """Wait for a file; a minute is only for a machine that is much too busy."""
    for _ in range(600):
        if path.exists():
            return True
        time.sleep(0.1)
    return False


def test_nothing_asked_starts_nothing(started):
    process = started(SHOUT)
    assert process.process_id is None
    process.close()


def test_no_lines_have_no_answers(started):
    assert started(SHOUT).ask([], 0) == []


def test_one_process_answers_again_and_again(started):
    process = started(SHOUT)
    assert process.ask(["a dog", "a cat"], 2) == ["A DOG", "A CAT"]
    first = process.process_id
    assert process.ask(["naïve"], 1) == ["NAÏVE"]
    assert process.process_id == first


def test_more_than_the_pipes_hold_goes_both_ways(started):
    lines = ["x" * 10_000] * 500
    assert started(SHOUT).ask(lines, 500, timeout=60) == [line.upper() for line in lines]


def test_a_flood_of_complaints_does_not_block(started):
    script = "import sys; sys.stderr.write('no ' * 1_000_000); sys.stderr.flush(); print(input())"
    assert started(script).ask(["a dog"], 1, timeout=60) == ["a dog"]


def test_dies_once_and_is_asked_again(started, tmp_path):
    script = """
import os, sys
line = input()
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    os._exit(3)
print(line)
"""
    assert started(script, tmp_path / "died").ask(["a dog"], 1) == ["a dog"]


def test_died_while_nobody_asked(started):
    process = started(SHOUT)
    process.ask(["a dog"], 1)
    first = process.process_id
    os.kill(first, signal.SIGKILL)
    assert process.ask(["a cat"], 1) == ["A CAT"]
    assert process.process_id != first


def test_dies_twice(started):
    process = started("import sys; sys.exit('out of memory: asked for ' + input())")
    with pytest.raises(
        MetricUnavailable, match=r"Shouter died twice .*exit status 1; .*out of memory: asked for a dog"
    ):
        process.ask(["a dog"], 1)
    assert process.process_id is None


def test_dies_before_it_has_read_everything(started):
    with pytest.raises(MetricUnavailable, match="exit status 7"):
        started("import os; os._exit(7)").ask(["x" * 10_000] * 500, 500)


def test_hangs(started):
    process = started("import sys, time; print(input(), flush=True); time.sleep(1000)")
    process.ask(["a dog"], 1)
    first = process.process_id
    with pytest.raises(MetricUnavailable, match=r"Shouter gave no answer for 0.5 seconds and was stopped"):
        process.ask(["a cat"], 1, timeout=0.5)
    assert process.process_id is None
    assert not runs(first)


def test_hangs_while_it_is_written_to(started):
    with pytest.raises(MetricUnavailable, match="no answer"):
        started("import time; time.sleep(1000)").ask(["x" * 10_000] * 500, 500, timeout=0.5)


def test_what_was_not_asked_answers_nothing(started):
    process = started("while True:\n  line = input()\n  print(line, flush=True)\n  print('and more', flush=True)")
    assert process.ask(["a dog"], 1) == ["a dog"]
    while process._life.answers.empty():
        time.sleep(0.01)
    assert process.ask(["a cat"], 1) == ["a cat"]


def test_an_interrupt_leaves_no_answers_behind(started):
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

    process = started(script)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(InterruptedForTestError):
            process.ask(["interrupt", "late"], 2)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert process.ask(["a dog"], 1) == ["a dog"]


def test_closing_ends_it_and_asking_starts_it_again(started, tmp_path):
    process = started(SHOUT_AND_TELL, tmp_path / "ended")
    assert process.ask(["a dog"], 2) == ["ready", "A DOG"]
    first = process.process_id
    process.close()
    assert not runs(first)
    assert (tmp_path / "ended").exists()
    assert process.ask(["a cat"], 2) == ["ready", "A CAT"]


def test_closing_a_process_that_ignores_the_end_of_its_input(started, monkeypatch):
    monkeypatch.setattr("sct.metrics.java_process._SECONDS_TO_END", 0.1)
    process = started("import time; print(input(), flush=True); time.sleep(1000)")
    process.ask(["a dog"], 1)
    first = process.process_id
    process.close()
    assert not runs(first)


def test_closing_a_process_that_does_not_read(started, monkeypatch):
    monkeypatch.setattr("sct.metrics.java_process._SECONDS_TO_END", 0.1)
    process = started("import time; print('ready', flush=True); time.sleep(1000)")
    process.ask(["x" * 10_000] * 500, 1)
    first = process.process_id
    process.close()
    assert not runs(first)


def test_threads_share_it(started):
    process = started(SHOUT)
    answers = {}

    def ask(word):
        answers[word] = [process.ask([word] * 50, 50) for _ in range(5)]

    threads = [threading.Thread(target=ask, args=(word,)) for word in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {word: [[word.upper()] * 50] * 5 for word in "abcd"}


@pytest.mark.parametrize("command", [["/nowhere/java"], [str(Path(__file__).parent)]], ids=["missing", "a folder"])
def test_cannot_be_started(command):
    with pytest.raises(MetricUnavailable, match="Shouter could not be started"):
        LineProtocolProcess("Shouter", command).ask(["a dog"], 1)


def test_one_command_is_one_process():
    first = shared_process("Shouter", python(SHOUT))
    assert shared_process("Shouter", python(SHOUT)) is first
    assert shared_process("Shouter", python(SHOUT, "otherwise")) is not first


PROGRAM = """
import os, sys
from sct.metrics.java_process import shared_process
process = shared_process("Shouter", [sys.executable, "-c", {shout!r}, sys.argv[1]])
print(process.ask(["a dog"], 2), flush=True)
{then}
"""


def program(then, ended):
    script = PROGRAM.format(shout=SHOUT_AND_TELL, then=then)
    return subprocess.run(python(script, ended), capture_output=True, text=True, check=False)


def test_it_ends_with_the_program(tmp_path):
    done = program("", tmp_path / "ended")
    assert (done.stdout, done.stderr, done.returncode) == ("['ready', 'A DOG']\n", "", 0)
    assert (tmp_path / "ended").exists()


def test_it_ends_when_the_program_is_killed(tmp_path):
    done = program("os.kill(os.getpid(), 9)", tmp_path / "ended")
    assert done.returncode == -signal.SIGKILL
    assert appears(tmp_path / "ended")


def test_a_forked_child_has_its_own(tmp_path):
    then = """
child = os.fork()
own = shared_process("Shouter", [sys.executable, "-c", SHOUT, sys.argv[1]])
if not child:
    print(own is not process, own.ask(["a cat"], 2), flush=True)
    sys.exit()
os.waitpid(child, 0)
print(own is process, process.ask(["a cow"], 1), flush=True)
"""
    # Newer Python warns of any fork beside threads, rightly; what is tried here is that ours survive it.
    done = program(
        f"import warnings; warnings.simplefilter('ignore'); SHOUT = {SHOUT_AND_TELL!r}{then}", tmp_path / "ended"
    )
    assert done.stdout.splitlines() == ["['ready', 'A DOG']", "True ['ready', 'A CAT']", "True ['A COW']"]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        pytest.param([], "", id="no words"),
        pytest.param(["a", "café"], "a café", id="as it is"),
        pytest.param(["a\nblack", "dog\r", "\x00"], "a black dog   ", id="line breaks"),
        pytest.param(["\ud83d", "dog"], "? dog", id="half a letter"),
    ],
)
def test_a_line_is_one_line(words, line):
    assert as_line(words) == line
