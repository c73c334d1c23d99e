"""Several processes of ``sct serve``: the shared port, deaths of workers and of the supervisor."""

import os
import re
import signal
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from sct.serving.client import Client, StudioError
from tests.color_vision import GREEN
from tests.serving.helpers import LEFT, is_alive, parse_metrics, photo, send_raw, serve_command, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="several processes need Linux")

PHOTO = photo()


def read_by_worker(url, name, labels=""):
    """A metric of both workers."""
    metrics = parse_metrics(send_raw(url, "GET", "/v1/metrics")[2].decode())
    return [metrics.get(f'{name}{{worker="{worker}"{labels}}}', 0.0) for worker in (0, 1)]


def can_connect(url):
    try:
        return Client(url).health()["workers"] == {"total": 2, "ready": 2}
    except StudioError:
        return False


@pytest.fixture(scope="module")
def url():
    with serve_command("--workers", "2") as command:
        yield command.url


def test_workers_share_the_port_and_encoded_images(url):
    assert Client(url).health()["workers"] == {"total": 2, "ready": 2}
    client, detected, texts = Client(url), Client(url).detect(PHOTO), set()

    def have_both_answered():
        assert client.detect(PHOTO) == detected
        texts.add(client.caption(PHOTO, [LEFT])[0].text)
        return all(read_by_worker(url, "sct_requests_total", ',route="/v1/caption",status="200"'))

    wait_until(have_both_answered)  # each request has a connection of its own
    assert len(texts) == 1
    encoded = read_by_worker(url, "sct_images_encoded_total")
    assert sum(encoded) == 1, "the worker that did not encode the image finds it"


def test_metrics_have_the_label_of_their_worker(url):
    text = send_raw(url, "GET", "/v1/metrics")[2].decode()
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert {re.search(r'worker="(\d+)"', line)[1] for line in samples} == {"0", "1"}
    families = Counter(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert set(families.values()) == {1}
    assert families["process_resident_memory_bytes"] == 1


def test_a_killed_worker_loses_its_own_requests_only(tmp_path):
    gate = tmp_path / "gate"
    with serve_command("--workers", "2", gate=gate) as command, ThreadPoolExecutor(20) as users:
        futures, encoding = [], set()
        while len(encoding) < 2:  # until both encode; each encodes one image and has the others wait
            futures.append(users.submit(Client(command.url).detect, photo((len(futures), 99, 0))))
            if len(futures) == 1 or len(futures) > 10:
                encoding.add(command.read_encoding_pid())

        def count_in_flight():
            return read_by_worker(command.url, "sct_requests_in_flight")

        wait_until(lambda: sum(count_in_flight()) == len(futures))
        in_flight = count_in_flight()
        victim, survivor = command.worker_pids()
        assert {victim, survivor} == encoding
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: can_connect(command.url))
        gate.touch()
        failures = [future for future in futures if isinstance(future.exception(60), StudioError)]
        assert len(failures) in in_flight
        assert 0 < len(failures) < len(futures)
        assert all(future.result() for future in futures if future not in failures)
        assert all(users.map(Client(command.url).detect, [photo((number, 0, 99)) for number in range(20)]))
        assert len(command.worker_pids()) == 2
        assert victim not in command.worker_pids()
        assert f"(process {victim}) was killed by SIGKILL: another one starts now" in command.read_errors()
        assert command.process.poll() is None


def test_no_process_survives_a_killed_supervisor(tmp_path):
    gate = tmp_path / "gate"
    with serve_command("--workers", "2", gate=gate) as command, ThreadPoolExecutor(1) as users:
        workers = command.worker_pids()
        assert len(workers) == 2
        future = users.submit(Client(command.url).detect, PHOTO)
        encoding = command.read_encoding_pid()
        [idle] = set(workers) - {encoding}
        command.process.kill()
        wait_until(lambda: not is_alive(idle))
        assert is_alive(encoding)
        gate.touch()
        assert future.result(60), "requests in flight are answered"
        wait_until(lambda: not is_alive(encoding))


def test_a_stopped_worker_is_replaced():
    with serve_command("--workers", "2") as command:
        first, second = command.worker_pids()
        os.kill(first, signal.SIGTERM)  # as for a restart of one worker after the other
        wait_until(lambda: len(set(command.worker_pids()) - {first}) == 2 and can_connect(command.url))
        assert second in command.worker_pids()
        assert Client(command.url).detect(photo(GREEN))
        command.process.terminate()
        assert command.process.wait(60) == 0


def test_workers_with_threads_of_their_own():
    """A worker that inherited a pool of OpenMP threads would hang."""
    with serve_command("--workers", "2", "--threads", "2") as command:
        assert all(Client(command.url, timeout=60).caption(PHOTO, [LEFT]) for _ in range(6))
