"""A server at a port: the client, many users at once, too many of them, users who leave, and the end."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from sct.captioner.captioner import CaptionOptions
from sct.errors import InputError
from sct.regions import Box, Region
from sct.serving.app import make_app
from sct.serving.client import Client, StudioError
from sct.serving.config import ServerSettings
from sct.serving.multipart import image_id
from tests.colour_vision import ColourVision
from tests.serving.studio_model import (
    BLUE,
    GREEN,
    LEFT,
    RED,
    RIGHT,
    SMALL,
    HeldVision,
    figures,
    live,
    photo,
    tiny_captioner,
)

PHOTO = photo()


@pytest.fixture(scope="module")
def address():
    with live(make_app(tiny_captioner())) as found:
        yield found


@pytest.fixture(scope="module")
def client(address):
    return Client(address)


@pytest.fixture
def held():
    """A model that waits, behind a server that takes three requests at once and two images' bytes."""
    vision = HeldVision()
    app = make_app(tiny_captioner(vision), ServerSettings(waiting=3, patience=0.0))
    with live(app) as found:
        yield vision, app.state.desk, found
        vision.may_look.set()


def raw(address, method, path, body=b"", **headers):
    connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    try:
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def metrics(address):
    return figures(raw(address, "GET", "/v1/metrics")[2].decode())


def until(is_so):
    """Wait for another thread to come so far."""
    for _ in range(60_000):
        if is_so():
            return
        time.sleep(0.001)
    raise AssertionError("it never came so far")


def test_the_client_gives_the_records_of_the_library(client):
    [ours] = client.caption(PHOTO, [LEFT, [RIGHT, SMALL]], cover=True)
    options = CaptionOptions(cover=True, no_repeat_ngram_size=2)
    expected = tiny_captioner().caption(PHOTO, [LEFT, [RIGHT, SMALL]], options=options)
    assert ours.text == expected.text
    assert ours.chunks == expected.chunks
    assert [word.region_set for word in ours.words] == [word.region_set for word in expected.words]
    assert [[region.class_name for region in each.regions] for each in ours.control.region_sets] == [
        ["red"],
        ["green", "red"],
    ]
    assert ours.control.ordered
    assert ours.regions_of(ours.words[0])[0].box == Box(*LEFT)
    assert len(client.caption(PHOTO, n_best=3, beam=3, max_length=5)) == 3


@pytest.mark.parametrize(
    ("asked", "no_repeat_ngram_size"), [({}, 2), ({"no_repeat_ngram_size": None}, 2), ({"no_repeat_ngram_size": 0}, 0)]
)
def test_the_client_asks_how_many_words_in_a_row_are_said_once(client, asked, no_repeat_ngram_size):
    options, alone = CaptionOptions(no_repeat_ngram_size=no_repeat_ngram_size), tiny_captioner()
    [ours] = client.caption(PHOTO, [LEFT, RIGHT], **asked)
    assert ours.text == alone.caption(PHOTO, [LEFT, RIGHT], options=options).text
    boxes = [LEFT, RIGHT]
    for way in client.ways(PHOTO, boxes, **asked):
        assert way.text == alone.caption(PHOTO, [boxes[number] for number in way.order.sets], options=options).text


@pytest.mark.parametrize(
    ("asked", "power"), [({}, 0.0), ({"length_penalty": None}, 0.0), ({"length_penalty": 1.0}, 1.0)]
)
def test_the_client_asks_by_what_captions_are_ranked(client, asked, power):
    alone = tiny_captioner()
    expected, other = (
        alone.caption(PHOTO, [LEFT], options=CaptionOptions(no_repeat_ngram_size=2, length_penalty=each)).text
        for each in (power, 1.0 - power)
    )
    assert client.caption(PHOTO, [LEFT], **asked)[0].text == expected != other
    assert expected in [way.text for way in client.ways(PHOTO, [LEFT, RIGHT], **asked)]


def test_users_who_ask_for_other_searches_are_answered_together():
    vision = HeldVision()
    with (
        live(make_app(tiny_captioner(vision), ServerSettings(patience=0.0))) as address,
        ThreadPoolExecutor(4) as users,
    ):
        first = users.submit(Client(address).detect, PHOTO)
        assert vision.looking.wait(60)
        sizes = (2, 0, 1)
        asked = [
            users.submit(Client(address).caption, PHOTO, [LEFT, RIGHT], no_repeat_ngram_size=size) for size in sizes
        ]
        until(lambda: metrics(address)["sct_waiting"] == 3)
        vision.may_look.set()
        first.result(60)
        found = [future.result(60)[0].text for future in asked]
        assert metrics(address)["sct_batch_requests_count"] == 2
    alone = tiny_captioner()
    expected = [
        alone.caption(PHOTO, [LEFT, RIGHT], options=CaptionOptions(no_repeat_ngram_size=size)).text for size in sizes
    ]
    assert found == expected
    assert len(set(expected)) == 3, "the case can tell"


def test_the_client_gives_orders_and_names(client):
    [caption] = client.caption(PHOTO, [Region(Box(*LEFT), "green"), Region(Box(*RIGHT), "red")], ordered=False)
    assert caption.order.sets == (0, 1)
    assert not caption.control.ordered
    [detected] = client.caption(PHOTO)
    assert detected.order.sets == (1, 2, 0)
    assert not detected.control.ordered


def test_the_client_detects_scores_and_says_it_otherwise(client, tmp_path):
    (tmp_path / "photo.png").write_bytes(PHOTO)
    found = client.detect(tmp_path / "photo.png", limit=2)
    assert [(region.class_name, region.box) for region in found] == [
        ("red", Box(0, 0, 20, 10)),
        ("green", Box(20, 0, 40, 10)),
    ]
    ways = client.ways(str(tmp_path / "photo.png"), [LEFT, RIGHT], 3)
    assert ways
    assert all(way.order.sets in ((0,), (1,), (1, 0)) for way in ways)
    scores = client.score(["a dog", "a cat"], [["a dog"], ["a bird"]], ["R"])
    assert scores.per_caption[0] == {"R": 100.0}
    assert scores.unavailable == {}
    assert client.health()["status"] == "ok"


def test_the_client_sends_a_image_once_and_again_when_it_was_forgotten(address):
    client, other = Client(address), photo(BLUE, RED)
    before = metrics(address)["sct_looks_total"]
    for _ in range(3):
        client.detect(other)
    assert metrics(address)["sct_looks_total"] == before + 1
    fresh = Client(address)
    fresh._known.add(image_id(photo(GREEN, RED)))
    assert fresh.detect(photo(GREEN, RED))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        pytest.param(
            lambda client: client.caption("no such file.jpg"), "no such file.jpg cannot be read", id="no file"
        ),
        pytest.param(lambda client: client.caption(b"text"), "of no known kind", id="no image"),
        pytest.param(lambda client: client.caption(PHOTO, [(0, 0, 99, 9)]), "leaves the image", id="a box outside"),
        pytest.param(lambda client: client.caption(PHOTO, beam=99), "beam: Input should be less", id="an option"),
        pytest.param(lambda client: client.score(["a"], [[]]), "references: List should", id="no references"),
    ],
)
def test_the_client_tells_bad_input(client, ask, message):
    with pytest.raises(InputError, match=message):
        ask(client)


@pytest.mark.parametrize("url", ["", "localhost:8765", "ftp://localhost", "http://"])
def test_the_client_refuses_what_is_no_address(url):
    with pytest.raises(InputError, match="is no address of a studio"):
        Client(url)


def test_the_client_tells_that_nobody_answers():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(StudioError, match="gave no answer") as told:
        Client(f"http://127.0.0.1:{port}").health()
    assert told.value.status is None


def test_the_client_bears_a_token():
    with live(make_app(tiny_captioner(), ServerSettings(token="secret"))) as address:
        assert Client(address, token="secret").detect(PHOTO)
        with pytest.raises(StudioError, match="wants a token") as told:
            Client(address).detect(PHOTO)
        assert told.value.status == 401


def test_requests_that_wait_together_are_answered_together():
    vision = HeldVision()
    with (
        live(make_app(tiny_captioner(vision), ServerSettings(patience=0.0))) as address,
        ThreadPoolExecutor(9) as users,
    ):
        asked = [users.submit(Client(address).caption, PHOTO, [LEFT])]
        assert vision.looking.wait(60)
        controls = [[LEFT], [RIGHT], [SMALL, LEFT], [RIGHT, [LEFT, SMALL]], None, [LEFT, RIGHT]]
        images = [PHOTO, photo(BLUE), photo(GREEN, RED)] * 2
        for control, image in zip(controls, images, strict=True):
            asked.append(users.submit(Client(address).caption, image, control))
        asked += [
            users.submit(Client(address).detect, photo(RED)),
            users.submit(Client(address).ways, PHOTO, [LEFT, RIGHT]),
        ]
        until(lambda: metrics(address)["sct_waiting"] == 8)
        vision.may_look.set()
        found = [future.result(60) for future in asked]
        counted = metrics(address)
    assert counted["sct_batch_requests_count"] == 2
    assert counted["sct_batch_requests_sum"] == 9
    assert counted['sct_batch_requests_bucket{le="1"}'] == 1
    assert counted["sct_looks_total"] == 4, "one image that several ask about is looked at once"
    alone = tiny_captioner()
    for control, image, [caption] in zip(controls, images, found[1:7], strict=True):
        expected = alone.caption(image, control, options=CaptionOptions(no_repeat_ngram_size=2))
        assert caption.text == expected.text
        assert caption.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
    assert found[7] == alone.detect(photo(RED))


def test_too_many_are_told_to_come_back(held):
    vision, desk, address = held
    with ThreadPoolExecutor(3) as users:
        asked = [users.submit(Client(address).detect, photo((place, 0, 0))) for place in (9, 90, 200)]
        until(lambda: desk.num_taken == 3)
        patient = Client(address, retries=0)
        with pytest.raises(StudioError, match="3 requests wait already") as told:
            patient.detect(PHOTO)
        assert told.value.status == 429
        status, headers, body = raw(address, "POST", "/v1/score", b"{}", content_type="application/json")
        assert status == 429
        assert int(headers["retry-after"]) >= 1
        assert list(json.loads(body)) == ["error"]
        assert raw(address, "GET", "/v1/health")[0] == 200, "who watches is always answered"
        vision.may_look.set()
        assert all(future.result(60) is not None for future in asked)
    assert patient.detect(PHOTO)
    assert desk.num_taken == 0


def test_images_that_could_not_be_looked_at_in_time_are_sent_away(held):
    vision, desk, address = held
    with ThreadPoolExecutor(2) as users:
        asked = [users.submit(Client(address).detect, PHOTO)]
        assert vision.looking.wait(60)
        asked.append(users.submit(Client(address).detect, photo(BLUE)))
        until(lambda: desk.num_waiting == 1)
        desk.counters.looked(1, 99.0)
        with pytest.raises(StudioError) as told:
            Client(address, retries=0).detect(photo(GREEN))
        assert told.value.status == 429, "one waits before it, and looks take longer than half of the time"
        vision.may_look.set()
        assert all(future.result(60) for future in asked)


def test_a_server_warms_up_before_it_opens():
    vision = ColourVision(6)
    desk = make_app(tiny_captioner(vision)).state.desk
    desk.warm_up()
    assert desk.counters.seconds_per_look() > 0
    assert len(desk.memory) == 0
    assert len(vision.looks) == 2
    desk.stop()


def test_a_patient_client_comes_back(held, monkeypatch):
    vision, desk, address = held
    monkeypatch.setattr("sct.serving.client.time", FakeTime(vision, desk))
    with ThreadPoolExecutor(3) as users:
        asked = [users.submit(Client(address).detect, photo((place, 0, 0))) for place in (9, 90, 200)]
        until(lambda: desk.num_taken == 3)
        assert Client(address).detect(PHOTO)
        assert all(future.result(60) is not None for future in asked)


class FakeTime:
    """Sleeping lets the model go on."""

    def __init__(self, vision, desk):
        self._vision, self._desk = vision, desk

    def sleep(self, seconds):
        assert seconds >= 1
        self._vision.may_look.set()
        until(lambda: self._desk.num_taken == 0)


def test_bytes_in_flight_are_bounded():
    vision = HeldVision()
    settings = ServerSettings(image_bytes=1000, json_bytes=1000, waiting_bytes=18_500)
    with live(make_app(tiny_captioner(vision), settings)) as address, ThreadPoolExecutor(1) as users:
        first = users.submit(Client(address).detect, PHOTO)
        assert vision.looking.wait(60)
        connection = socket.create_connection(urlsplit(address).netloc.split(":"), timeout=60)
        head = "POST /v1/detect HTTP/1.1\r\nHost: localhost\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n"
        with connection:
            connection.sendall(head.encode())
            assert b" 429 " in connection.recv(1000), "one of unknown size might have more bytes than are left"
        vision.may_look.set()
        assert first.result(60)


def test_who_leaves_is_not_worked_for(held):
    vision, desk, address = held
    with ThreadPoolExecutor(1) as users:
        first = users.submit(Client(address).detect, PHOTO)
        assert vision.looking.wait(60)
        body = json.dumps({"image": "0" * 64}).encode()
        assert raw(address, "POST", "/v1/detect", body, content_type="application/json")[0] == 404
        form = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\n' + photo(BLUE) + b"\r\n--x--\r\n"
        connection = HTTPConnection(urlsplit(address).netloc, timeout=60)
        connection.request("POST", "/v1/detect", form, {"Content-Type": "multipart/form-data; boundary=x"})
        until(lambda: desk.num_waiting == 1)
        connection.close()
        until(lambda: desk.num_taken == 1)
        vision.may_look.set()
        assert first.result(60)
        until(lambda: metrics(address)["sct_cancelled_total"] == 1)
    assert len(vision.looks) == 1
    assert metrics(address)['sct_requests_total{route="/v1/detect",status="499"}'] == 1


def test_no_answer_in_time_is_told_and_not_begun():
    vision = HeldVision()
    with live(make_app(tiny_captioner(vision), ServerSettings(seconds=0.2))) as address:
        for _ in range(2):
            with pytest.raises(StudioError, match=r"no answer within 0\.2 seconds") as told:
                Client(address).detect(PHOTO)
            assert told.value.status == 504
        vision.may_look.set()
        until(lambda: metrics(address)["sct_cancelled_total"] == 1)
        assert metrics(address)["sct_in_flight"] == 0


def test_a_body_that_does_not_come_is_not_waited_for():
    with live(make_app(tiny_captioner(), ServerSettings(seconds=0.2))) as address:
        place = urlsplit(address).netloc.split(":")
        with socket.create_connection(place, timeout=60) as connection:
            head = "POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
            connection.sendall(head.encode())
            assert b" 408 " in connection.recv(1000)


def test_a_stop_answers_what_is_in_flight():
    vision = HeldVision()
    app = make_app(tiny_captioner(vision))
    with ThreadPoolExecutor(2) as users:
        with live(app) as address:
            asked = [users.submit(Client(address).detect, PHOTO)]
            assert vision.looking.wait(60)
            asked.append(users.submit(Client(address).detect, photo(BLUE)))
            until(lambda: app.state.desk.num_waiting == 1)
            threading.Timer(0.05, vision.may_look.set).start()
        assert all(future.result(0) for future in asked)
        with pytest.raises(StudioError):
            Client(address).health()


SERVER = """
import sys
sys.path[:0] = sys.argv[1:3]
from tests.serving.studio_model import HeldVision, tiny_captioner
import sct.captioner.captioner
vision = HeldVision()
vision.look = lambda images, boxes, look=vision.look: (print("looking", flush=True), sys.stdin.readline(),
    vision.may_look.set(), look(images, boxes))[-1]
sct.captioner.captioner.load = lambda *args, **kwargs: tiny_captioner(vision)
import sct.serving.service
sct.serving.service.InferenceService.warm_up = lambda self: None
from sct.cli.main import run
sys.exit(run(["serve", "--port", "0", "--threads", "1"]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_lets_the_command_finish(request, number):
    folders = [str(request.path.parent), str(request.path.parents[2])]
    with (
        subprocess.Popen(
            [sys.executable, "-c", SERVER, *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SCT_TOKEN": ""},
        ) as process,
        ThreadPoolExecutor(1) as users,
    ):
        line = process.stdout.readline()
        assert line.startswith("sct: http://127.0.0.1:")
        address = line.split()[1]
        asked = users.submit(Client(address).detect, PHOTO)
        assert process.stdout.readline() == "looking\n"
        process.send_signal(number)

        def refuses():
            try:
                return Client(address).health()["status"] == "stopping"
            except StudioError:
                return True

        until(refuses)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert asked.result(60)
        assert process.wait(60) == 0
