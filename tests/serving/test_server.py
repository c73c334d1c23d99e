"""A server on a port: the client, batching, admission control, cancellation and shutdown."""

import json
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from sct.captioner.requests import CaptionOptions
from sct.errors import InputError
from sct.regions import Box
from sct.serving.app import make_app
from sct.serving.client import Client, StudioError
from sct.serving.config import ServerConfig
from sct.serving.multipart import image_id
from tests.color_vision import BLUE, GREEN, RED, ColorVision
from tests.factories import make_captioner
from tests.serving.helpers import (
    LEFT,
    RIGHT,
    SMALL,
    BlockingVision,
    parse_metrics,
    photo,
    run_server,
    send_raw,
    serve_command,
    wait_until,
)

PHOTO = photo()


@pytest.fixture(scope="module")
def address():
    with run_server(make_app(make_captioner())) as found:
        yield found


@pytest.fixture(scope="module")
def client(address):
    return Client(address)


@pytest.fixture
def blocked():
    """Blocked vision encoder, service and URL of a server that admits three requests."""
    vision = BlockingVision()
    app = make_app(make_captioner(vision=vision), ServerConfig(max_queue=3, max_delay=0.0))
    with run_server(app) as found:
        yield vision, app.state.service, found
        vision.may_encode.set()


def metrics(address):
    return parse_metrics(send_raw(address, "GET", "/v1/metrics")[2].decode())


def test_client_returns_the_records_of_the_library(client):
    [ours] = client.caption(PHOTO, [LEFT, [RIGHT, SMALL]], cover=True)
    options = CaptionOptions(cover=True, no_repeat_ngram_size=2)
    expected = make_captioner().caption(PHOTO, [LEFT, [RIGHT, SMALL]], options=options)
    assert ours.text == expected.text
    assert ours.chunks == expected.chunks
    assert [word.region_set for word in ours.words] == [word.region_set for word in expected.words]
    assert [[region.class_name for region in each.regions] for each in ours.control.region_sets] == [
        ["red"],
        ["green", "red"],
    ]
    assert ours.control.ordered
    assert ours.regions_of(ours.words[0])[0].box == Box(*LEFT)
    assert len(client.caption(PHOTO, n_best=3, beam_size=3, max_length=5)) == 3


@pytest.mark.parametrize(
    ("options", "no_repeat_ngram_size"),
    [({}, 2), ({"no_repeat_ngram_size": None}, 2), ({"no_repeat_ngram_size": 0}, 0)],
)
def test_client_sends_no_repeat_ngram_size(client, options, no_repeat_ngram_size):
    expected, alone = CaptionOptions(no_repeat_ngram_size=no_repeat_ngram_size), make_captioner()
    [ours] = client.caption(PHOTO, [LEFT, RIGHT], **options)
    assert ours.text == alone.caption(PHOTO, [LEFT, RIGHT], options=expected).text
    boxes = [LEFT, RIGHT]
    for alternative in client.alternatives(PHOTO, boxes, **options):
        assert (
            alternative.text
            == alone.caption(PHOTO, [boxes[number] for number in alternative.order.sets], options=expected).text
        )


@pytest.mark.parametrize(
    ("options", "penalty"), [({}, 0.0), ({"length_penalty": None}, 0.0), ({"length_penalty": 1.0}, 1.0)]
)
def test_client_sends_length_penalty(client, options, penalty):
    alone = make_captioner()
    expected, other = (
        alone.caption(PHOTO, [LEFT], options=CaptionOptions(no_repeat_ngram_size=2, length_penalty=each)).text
        for each in (penalty, 1.0 - penalty)
    )
    assert client.caption(PHOTO, [LEFT], **options)[0].text == expected != other
    assert expected in [alternative.text for alternative in client.alternatives(PHOTO, [LEFT, RIGHT], **options)]


def test_requests_with_different_options_share_a_batch():
    vision = BlockingVision()
    with (
        run_server(make_app(make_captioner(vision=vision), ServerConfig(max_delay=0.0))) as address,
        ThreadPoolExecutor(4) as users,
    ):
        first = users.submit(Client(address).detect, PHOTO)
        assert vision.encoding.wait(60)
        sizes = (2, 0, 1)
        futures = [
            users.submit(Client(address).caption, PHOTO, [LEFT, RIGHT], no_repeat_ngram_size=size) for size in sizes
        ]
        wait_until(lambda: metrics(address)["sct_queue_length"] == 3)
        vision.may_encode.set()
        first.result(60)
        found = [future.result(60)[0].text for future in futures]
        assert metrics(address)["sct_batch_size_count"] == 2
    alone = make_captioner()
    expected = [
        alone.caption(PHOTO, [LEFT, RIGHT], options=CaptionOptions(no_repeat_ngram_size=size)).text for size in sizes
    ]
    assert found == expected
    assert len(set(expected)) == 3, "the option matters here"


def test_client_returns_orders(client):
    [caption] = client.caption(PHOTO, [LEFT, RIGHT], ordered=False)
    assert caption.order.sets == (1, 0)
    assert not caption.control.ordered
    [detected] = client.caption(PHOTO)
    assert detected.order.sets == (1, 2, 0)
    assert not detected.control.ordered


def test_client_detect_alternatives_and_score(client, tmp_path):
    (tmp_path / "photo.png").write_bytes(PHOTO)
    found = client.detect(tmp_path / "photo.png", limit=2)
    assert [(region.class_name, region.box) for region in found] == [
        ("red", Box(0, 0, 20, 10)),
        ("green", Box(20, 0, 40, 10)),
    ]
    alternatives = client.alternatives(str(tmp_path / "photo.png"), [LEFT, RIGHT], 3)
    assert alternatives
    assert all(alternative.order.sets in ((0,), (1,), (1, 0)) for alternative in alternatives)
    scores = client.score(["a dog", "a cat"], [["a dog"], ["a bird"]], ["R"])
    assert scores.per_caption[0] == {"R": 100.0}
    assert scores.unavailable == {}
    assert client.health()["status"] == "ok"


def test_client_uploads_an_image_once_and_again_after_eviction(address):
    client, other = Client(address), photo(BLUE, RED)
    before = metrics(address)["sct_images_encoded_total"]
    for _ in range(3):
        client.detect(other)
    assert metrics(address)["sct_images_encoded_total"] == before + 1
    fresh = Client(address)
    fresh._known_images.add(image_id(photo(GREEN, RED)))
    assert fresh.detect(photo(GREEN, RED))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(lambda client: client.caption("no such file.jpg"), "cannot read no such file.jpg", id="no file"),
        pytest.param(lambda client: client.caption(b"text"), "unknown image format", id="no image"),
        pytest.param(lambda client: client.caption(PHOTO, [(0, 0, 99, 9)]), "leaves the image", id="a box outside"),
        pytest.param(lambda client: client.caption(PHOTO, beam_size=99), "beam_size: Input should be", id="an option"),
        pytest.param(lambda client: client.score(["a"], [[]]), "references: List should", id="no references"),
    ],
)
def test_client_raises_input_errors(client, call, message):
    with pytest.raises(InputError, match=message):
        call(client)


@pytest.mark.parametrize("url", ["", "localhost:8765", "ftp://localhost", "http://"])
def test_client_rejects_invalid_urls(url):
    with pytest.raises(InputError, match="expected the URL of a server"):
        Client(url)


def test_client_without_a_server():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(StudioError, match="sent no valid response") as error:
        Client(f"http://127.0.0.1:{port}").health()
    assert error.value.status is None


def test_client_sends_its_token():
    with run_server(make_app(make_captioner(), ServerConfig(token="secret"))) as address:
        assert Client(address, token="secret").detect(PHOTO)
        with pytest.raises(StudioError, match="token is missing or wrong") as error:
            Client(address).detect(PHOTO)
        assert error.value.status == 401


def test_queued_requests_are_batched():
    vision = BlockingVision()
    with (
        run_server(make_app(make_captioner(vision=vision), ServerConfig(max_delay=0.0))) as address,
        ThreadPoolExecutor(9) as users,
    ):
        futures = [users.submit(Client(address).caption, PHOTO, [LEFT])]
        assert vision.encoding.wait(60)
        controls = [[LEFT], [RIGHT], [SMALL, LEFT], [RIGHT, [LEFT, SMALL]], None, [LEFT, RIGHT]]
        images = [PHOTO, photo(BLUE), photo(GREEN, RED)] * 2
        for control, image in zip(controls, images, strict=True):
            futures.append(users.submit(Client(address).caption, image, control))
        futures += [
            users.submit(Client(address).detect, photo(RED)),
            users.submit(Client(address).alternatives, PHOTO, [LEFT, RIGHT]),
        ]
        wait_until(lambda: metrics(address)["sct_queue_length"] == 8)
        vision.may_encode.set()
        found = [future.result(60) for future in futures]
        counts = metrics(address)
    assert counts["sct_batch_size_count"] == 2
    assert counts["sct_batch_size_sum"] == 9
    assert counts['sct_batch_size_bucket{le="1"}'] == 1
    assert counts["sct_images_encoded_total"] == 4, "an image of several requests is encoded once"
    alone = make_captioner()
    for control, image, [caption] in zip(controls, images, found[1:7], strict=True):
        expected = alone.caption(image, control, options=CaptionOptions(no_repeat_ngram_size=2))
        assert caption.text == expected.text
        assert caption.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
    assert found[7] == alone.detect(photo(RED))


def test_requests_over_the_limit_get_429(blocked):
    vision, service, address = blocked
    with ThreadPoolExecutor(3) as users:
        futures = [users.submit(Client(address).detect, photo((place, 0, 0))) for place in (9, 90, 200)]
        wait_until(lambda: service.in_flight == 3)
        client = Client(address, retries=0)
        with pytest.raises(StudioError, match="3 requests are in flight") as error:
            client.detect(PHOTO)
        assert error.value.status == 429
        status, headers, body = send_raw(address, "POST", "/v1/score", b"{}", content_type="application/json")
        assert status == 429
        assert int(headers["retry-after"]) >= 1
        assert list(json.loads(body)) == ["error"]
        assert send_raw(address, "GET", "/v1/health")[0] == 200, "health is always answered"
        vision.may_encode.set()
        assert all(future.result(60) is not None for future in futures)
    assert client.detect(PHOTO)
    assert service.in_flight == 0


def test_images_that_would_time_out_are_rejected_early(blocked):
    vision, service, address = blocked
    with ThreadPoolExecutor(2) as users:
        futures = [users.submit(Client(address).detect, PHOTO)]
        assert vision.encoding.wait(60)
        futures.append(users.submit(Client(address).detect, photo(BLUE)))
        wait_until(lambda: service.queue_length == 1)
        service.counters.add_encoded(1, 99.0)
        with pytest.raises(StudioError) as error:
            Client(address, retries=0).detect(photo(GREEN))
        assert error.value.status == 429, "one image is queued, and encoding takes more than half of the timeout"
        vision.may_encode.set()
        assert all(future.result(60) for future in futures)


def test_warm_up():
    vision = ColorVision(6)
    service = make_app(make_captioner(vision=vision)).state.service
    service.warm_up()
    assert service.counters.seconds_per_image() > 0
    assert len(service.cache) == 0
    assert len(vision.encoded) == 2
    service.stop()


def test_client_retries_after_429(blocked, monkeypatch):
    vision, service, address = blocked
    monkeypatch.setattr("sct.serving.client.time", FakeTime(vision, service))
    with ThreadPoolExecutor(3) as users:
        futures = [users.submit(Client(address).detect, photo((place, 0, 0))) for place in (9, 90, 200)]
        wait_until(lambda: service.in_flight == 3)
        assert Client(address).detect(PHOTO)
        assert all(future.result(60) is not None for future in futures)


class FakeTime:
    """Sleeping unblocks the model."""

    def __init__(self, vision, service):
        self._vision, self._desk = vision, service

    def sleep(self, seconds):
        assert seconds >= 1
        self._vision.may_encode.set()
        wait_until(lambda: self._desk.in_flight == 0)


def test_requests_of_disconnected_clients_are_cancelled(blocked):
    vision, service, address = blocked
    with ThreadPoolExecutor(1) as users:
        first = users.submit(Client(address).detect, PHOTO)
        assert vision.encoding.wait(60)
        body = json.dumps({"image": "0" * 64}).encode()
        assert send_raw(address, "POST", "/v1/detect", body, content_type="application/json")[0] == 404
        form = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\n' + photo(BLUE) + b"\r\n--x--\r\n"
        connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
        connection.request("POST", "/v1/detect", form, {"Content-Type": "multipart/form-data; boundary=x"})
        wait_until(lambda: service.queue_length == 1)
        connection.close()
        wait_until(lambda: service.in_flight == 1)
        vision.may_encode.set()
        assert first.result(60)
        wait_until(lambda: metrics(address)["sct_requests_cancelled_total"] == 1)
    assert len(vision.encoded) == 1
    assert metrics(address)['sct_requests_total{route="/v1/detect",status="499"}'] == 1


def test_timeout():
    vision = BlockingVision()
    with run_server(make_app(make_captioner(vision=vision), ServerConfig(request_timeout=0.2))) as address:
        for _ in range(2):
            with pytest.raises(StudioError, match=r"no result within 0\.2 seconds") as error:
                Client(address).detect(PHOTO)
            assert error.value.status == 504
        vision.may_encode.set()
        wait_until(lambda: metrics(address)["sct_requests_cancelled_total"] == 1)
        assert metrics(address)["sct_requests_in_flight"] == 0


def test_stop_answers_requests_in_flight():
    vision = BlockingVision()
    app = make_app(make_captioner(vision=vision))
    with ThreadPoolExecutor(2) as users:
        with run_server(app) as address:
            futures = [users.submit(Client(address).detect, PHOTO)]
            assert vision.encoding.wait(60)
            futures.append(users.submit(Client(address).detect, photo(BLUE)))
            wait_until(lambda: app.state.service.queue_length == 1)
            threading.Timer(0.05, vision.may_encode.set).start()
        assert all(future.result(0) for future in futures)
        with pytest.raises(StudioError):
            Client(address).health()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_signals_stop_the_command_gracefully(tmp_path, number, workers):
    with (
        serve_command("--workers", str(workers), gate=tmp_path / "gate") as command,
        ThreadPoolExecutor(1) as users,
    ):
        future = users.submit(Client(command.url).detect, PHOTO)
        command.read_encoding_pid()
        command.process.send_signal(number)

        def is_stopping():
            try:
                return Client(command.url).health()["status"] == "stopping"
            except StudioError:
                return True

        wait_until(is_stopping)
        (tmp_path / "gate").touch()
        assert future.result(60)
        assert command.process.wait(60) == 0
        assert command.read_errors() == ""
