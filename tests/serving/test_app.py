"""Every route, what it answers and what it refuses."""

import json

import pytest

from sct.captioner.captioner import CaptionOptions
from sct.regions.images import load_image
from sct.serving.multipart import image_id
from tests.serving.studio_model import (
    BLUE,
    GREEN,
    LEFT,
    RED,
    RIGHT,
    SMALL,
    encoded,
    eye_of_16,
    opened_app,
    photo,
    tiny_captioner,
)

PHOTO = photo()
ID = image_id(PHOTO)
IMAGE_ROUTES = ["/v1/caption", "/v1/ways", "/v1/detect"]


@pytest.fixture(scope="module")
def studio():
    with opened_app() as client:
        yield client


@pytest.fixture(scope="module")
def captioner():
    return tiny_captioner()


def captions(response):
    assert response.status_code == 200, response.text
    return response.json()["captions"]


def plain(value):
    return json.loads(json.dumps(value))


def test_captions_are_those_of_the_library(studio, captioner):
    answer = studio.send("/v1/caption", PHOTO, {"control": [[LEFT], [RIGHT, SMALL]], "n_best": 3, "cover": True})
    assert answer.json()["image"] == {"id": ID, "width": 40, "height": 20}
    options = CaptionOptions(n_best=3, cover=True, no_repeat_ngram_size=2)
    [requested] = captioner.caption_images([_request(PHOTO, [LEFT, [RIGHT, SMALL]])], options)
    assert len(requested) == 3
    for ours, theirs in zip(captions(answer), requested, strict=True):
        assert ours["log_prob"] == pytest.approx(theirs.log_prob, abs=1e-4)
        expected = plain(theirs.as_dict())
        assert {**ours, "log_prob": 0, "words": 0} == {**expected, "log_prob": 0, "words": 0}
        assert [word["region_set"] for word in ours["words"]] == [word["region_set"] for word in expected["words"]]


def _request(data, regions, *, ordered=True):
    from sct.captioner.captioner import ImageRequest
    from sct.regions.parsing import as_control

    return ImageRequest(load_image(data), as_control(regions, ordered=ordered))


@pytest.mark.parametrize(
    ("mode", "request_", "no_repeat_ngram_size"),
    [
        pytest.param("paper", {}, 2, id="nothing asked"),
        pytest.param("paper", {"no_repeat_ngram_size": None}, 2, id="null"),
        pytest.param("paper", {"no_repeat_ngram_size": 0}, 0, id="the paper's search"),
        pytest.param("paper", {"no_repeat_ngram_size": 1}, 1, id="no word twice"),
        pytest.param("reference", {}, 0, id="the authors' weights keep the authors' search"),
        pytest.param("reference", {"no_repeat_ngram_size": 2}, 2, id="unless asked"),
    ],
)
def test_how_many_words_in_a_row_are_said_once(mode, request_, no_repeat_ngram_size):
    captioner = tiny_captioner(mode=mode)
    options = CaptionOptions(no_repeat_ngram_size=no_repeat_ngram_size)
    with opened_app(captioner) as studio:
        [caption] = captions(studio.send("/v1/caption", PHOTO, {"control": [[LEFT], [RIGHT]], **request_}))
        ways = captions(studio.send("/v1/ways", PHOTO, {"control": [[LEFT], [RIGHT]], **request_}))
    assert caption["text"] == captioner.caption(PHOTO, [LEFT, RIGHT], options=options).text
    other = CaptionOptions(no_repeat_ngram_size=0 if no_repeat_ngram_size else 2)
    assert caption["text"] != captioner.caption(PHOTO, [LEFT, RIGHT], options=other).text, "the case can tell"
    boxes = [LEFT, RIGHT]
    assert ways
    for way in ways:
        order = [boxes[number] for number in way["order"]["sets"]]
        assert way["text"] == captioner.caption(PHOTO, order, options=options).text


@pytest.mark.parametrize(
    ("own", "request_", "used"),
    [
        pytest.param(0.0, {}, 0.0, id="neither says anything"),
        pytest.param(1.0, {}, 1.0, id="the model's own"),
        pytest.param(1.0, {"length_penalty": None}, 1.0, id="null"),
        pytest.param(1.0, {"length_penalty": 0}, 0.0, id="none is asked for"),
        pytest.param(0.0, {"length_penalty": 1}, 1.0, id="asked for"),
    ],
)
def test_by_what_captions_are_ranked(captioner, own, request_, used):
    with opened_app(tiny_captioner(length_penalty=own)) as studio:
        [caption] = captions(studio.send("/v1/caption", PHOTO, {"control": [[LEFT]], **request_}))
        ways = captions(studio.send("/v1/ways", PHOTO, {"control": [[LEFT], [RIGHT]], **request_}))
    requested, other = (
        captioner.caption(PHOTO, [LEFT], options=CaptionOptions(no_repeat_ngram_size=2, length_penalty=power)).text
        for power in (used, 1.0 - used)
    )
    assert caption["text"] == requested
    assert requested != other, "the case can tell"
    [left] = [way["text"] for way in ways if way["order"]["sets"] == [0]]
    assert left == requested


def test_a_caption_says_all_that_is_known_of_it(studio):
    [caption] = captions(studio.send("/v1/caption", PHOTO, {"control": [[LEFT], [RIGHT, SMALL]], "cover": True}))
    assert caption["order"] is None
    assert caption["control"] == [[LEFT], [RIGHT, SMALL]]
    assert caption["classes"] == [["red"], ["green", "red"]]
    assert caption["text"] == " ".join(word["text"] for word in caption["words"])
    sizes = [1, 2]
    for word in caption["words"]:
        assert len(word["attention"]) == sizes[word["region_set"]]
        assert sum(word["attention"]) + word["sentinel_weight"] == pytest.approx(1, abs=1e-4)
        assert 0 <= word["shift_probability"] <= 1
    assert {chunk["region_set"] for chunk in caption["chunks"]} <= {0, 1}
    for chunk in caption["chunks"]:
        assert chunk["boxes"] == caption["control"][chunk["region_set"]]
    again = {"control": caption["control"], "classes": caption["classes"], "cover": True}
    assert captions(studio.send("/v1/caption", PHOTO, again))[0]["text"] == caption["text"], "it can be sent back"


def test_without_a_control_regions_are_detected_and_sorted(studio):
    [caption] = captions(studio.send("/v1/caption", PHOTO))
    assert caption["classes"] == [["red"], ["green"], ["blue"]]
    assert caption["order"]["sets"] == [1, 2, 0], "green, blue, red, by the sorter of these tests"


def test_a_set_is_put_in_order_and_names_are_kept(studio):
    request = {"control": [[LEFT], [RIGHT]], "ordered": False, "n_best": 2}
    for caption in captions(studio.send("/v1/caption", PHOTO, request)):
        assert caption["order"]["sets"] == [1, 0]
        assert caption["classes"] == [["red"], ["green"]]
    [caption] = captions(studio.send("/v1/caption", PHOTO, {**request, "n_best": 1, "classes": [["green"], ["red"]]}))
    assert caption["order"]["sets"] == [0, 1]
    assert caption["classes"] == [["green"], ["red"]]


def test_a_image_is_sent_once(studio):
    sent = studio.send("/v1/detect", PHOTO).json()
    looks = studio.figures()["sct_looks_total"]
    named = studio.post("/v1/detect", json={"image": ID}).json()
    assert named == sent
    by_name = captions(studio.post("/v1/caption", json={"image": ID, "control": [[LEFT]]}))
    assert by_name == captions(studio.send("/v1/caption", PHOTO, {"control": [[LEFT]]}))
    assert studio.figures()["sct_looks_total"] == looks, "neither the name nor the bytes again cost a look"


def test_a_known_image_is_not_looked_at_again_by_the_eye_of_a_bundle(monkeypatch):
    eye, looks = eye_of_16(), []
    look = eye.network.look
    monkeypatch.setattr(eye.network, "look", lambda images: looks.append(len(images)) or look(images))
    with opened_app(tiny_captioner(eye, None, 16)) as studio:
        first = captions(studio.send("/v1/caption", PHOTO, {"control": [[LEFT]]}))
        for control in ([[LEFT]], [[RIGHT], [SMALL]], None):
            captions(studio.post("/v1/caption", json={"image": ID, "control": control}))
        assert captions(studio.send("/v1/caption", PHOTO, {"control": [[LEFT]]})) == first
    assert looks == [1]


def test_a_image_that_was_forgotten_is_asked_for():
    with opened_app(memory_bytes=5000) as studio:
        assert studio.send("/v1/detect", PHOTO).status_code == 200
        assert studio.figures()["sct_memory_images"] == 1
        assert studio.send("/v1/detect", photo(BLUE)).status_code == 200
        assert studio.figures()["sct_memory_bytes"] <= 5000
        answer = studio.post("/v1/detect", json={"image": ID})
        assert answer.status_code == 404
        assert answer.json() == {"error": f"image {ID} is not in memory, or not any more: send its bytes"}


def test_other_ways_to_say_it(studio, captioner):
    request = {"control": [[LEFT], [RIGHT], [SMALL]], "number": 20, "cover": True}
    found = captions(studio.send("/v1/ways", PHOTO, request))
    assert len({caption["text"] for caption in found}) == len(found) >= 3
    log_probs = [caption["log_prob"] for caption in found]
    assert log_probs == sorted(log_probs, reverse=True)
    orders = [tuple(caption["order"]["sets"]) for caption in found]
    assert (0, 1, 2) not in orders, "that is how it was said already"
    assert {len(order) for order in orders} >= {1, 2}
    boxes = [LEFT, RIGHT, SMALL]
    for caption, order in zip(found, orders, strict=True):
        assert caption["control"] == [[LEFT], [RIGHT], [SMALL]]
        assert list(dict.fromkeys(word["region_set"] for word in caption["words"])) == list(order), "all, in this order"
        options = CaptionOptions(cover=True, no_repeat_ngram_size=2)
        requested = captioner.caption(PHOTO, [boxes[number] for number in order], options=options)
        assert caption["text"] == requested.text
        assert caption["log_prob"] == pytest.approx(requested.log_prob, abs=1e-4)
    some = captions(studio.send("/v1/ways", PHOTO, {**request, "number": 2}))
    assert len(some) == 2


def test_other_ways_are_ranked_as_their_search_ranks(studio):
    request = {"control": [[LEFT], [RIGHT], [SMALL]], "number": 20, "length_penalty": 1.0}
    found = captions(studio.send("/v1/ways", PHOTO, request))
    scores = [caption["log_prob"] / min(len(caption["words"]) + 1, 20) for caption in found]
    assert scores == sorted(scores, reverse=True)
    log_probs = [caption["log_prob"] for caption in found]
    assert log_probs != sorted(log_probs, reverse=True), "the two orders differ here"


def test_of_a_set_every_order_is_another_way(studio):
    request = {"control": [[LEFT], [RIGHT]], "ordered": False, "number": 20}
    orders = {tuple(caption["order"]["sets"]) for caption in captions(studio.send("/v1/ways", PHOTO, request))}
    assert orders <= {(0,), (1,), (0, 1), (1, 0)}


def test_one_region_set_can_be_said_in_one_way(studio):
    assert captions(studio.send("/v1/ways", PHOTO, {"control": [[LEFT, RIGHT]]})) == []


def test_detects(studio, captioner):
    answer = studio.send("/v1/detect", PHOTO, {"limit": 2}).json()
    assert answer["image"] == {"id": ID, "width": 40, "height": 20}
    assert answer["regions"] == [
        {"box": [0, 0, 20, 10], "class": "red", "score": pytest.approx(220 / 255)},
        {"box": [20, 0, 40, 10], "class": "green", "score": pytest.approx(200 / 255)},
    ]
    nothing = studio.send("/v1/detect", encoded(load_image(PHOTO).pixels * 0)).json()
    assert nothing["regions"] == []


def test_scores(studio):
    said = [
        {"prediction": "a dog runs in grass", "references": ["a dog runs in grass"]},
        {"prediction": "a cat", "references": ["a bird", "two birds"]},
    ]
    answer = studio.post("/v1/score", json={"predictions": said, "metrics": ["C", "B1", "R"]}).json()
    assert answer["scores"]["C"] == pytest.approx(500), "10 for the first, 0 for the second, times 100 / 2"
    assert list(answer["scores"]) == ["C", "B1", "R"]
    assert answer["groups"] == 2
    assert answer["unavailable"] == {}
    assert [line["C"] for line in answer["per_caption"]] == pytest.approx([1000, 0])
    assert list(studio.post("/v1/score", json={"predictions": said[:1]}).json()["scores"]) == ["B4", "R", "C"]


def test_health_tells_what_the_model_can_do(studio):
    answer = studio.get("/v1/health").json()
    assert answer["status"] == "ok"
    assert answer["model"] == {"words": 10, "can_see": True, "can_sort": True}
    assert answer["limits"]["image_bytes"] == 10 * 2**20
    assert answer["limits"]["region_sets"] == 10
    assert answer["metrics"] == ["B1", "B2", "B3", "B4", "R", "C", "NW", "IoU"]
    with opened_app(tiny_captioner(None, None)) as blind:
        assert blind.get("/v1/health").json()["model"] == {"words": 10, "can_see": False, "can_sort": False}
        answer = blind.send("/v1/caption", PHOTO)
        assert answer.status_code == 422
        assert "the bundle cannot see images" in answer.json()["error"]


def test_metrics_are_those_of_prometheus():
    with opened_app() as studio:
        studio.send("/v1/detect", PHOTO)
        studio.get("/nowhere")
        answer = studio.get("/v1/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        figures = studio.figures()
        assert figures['sct_requests_total{route="/v1/detect",status="200"}'] == 1
        assert figures['sct_requests_total{route="other",status="404"}'] == 1
        assert figures['sct_request_seconds_bucket{route="/v1/detect",le="+Inf"}'] == 1
        assert figures["sct_in_flight"] == 0
        assert figures["sct_looks_total"] == 1
        assert figures["sct_memory_images"] == 1
        assert figures["process_resident_memory_bytes"] > 1e6


@pytest.mark.parametrize("path", IMAGE_ROUTES)
@pytest.mark.parametrize(
    ("what", "status", "sentence"),
    [
        pytest.param({}, 415, "requested multipart/form-data or application/json", id="no body"),
        pytest.param({"json": {}}, 422, "", id="neither image nor id"),
        pytest.param({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "JSON", id="no json"),
        pytest.param({"content": b"[]", "headers": {"content-type": "application/json"}}, 422, "object", id="a list"),
        pytest.param({"content": b"\xff", "headers": {"content-type": "application/json"}}, 400, "JSON", id="no text"),
        pytest.param({"data": {"a": "b"}}, 415, "x-www-form-urlencoded", id="another form"),
        pytest.param({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400, "boundary", id="half"),
        pytest.param({"files": {"image": PHOTO, "more": b"1"}}, 422, "has a part 'more'", id="another part"),
        pytest.param({"files": {"image": PHOTO, "request": b"{]"}}, 400, "JSON", id="no json in a form"),
        pytest.param({"json": {"image": "../../etc/passwd"}}, 422, "image: String should match", id="a path"),
        pytest.param({"json": {"image": "0" * 64, "control": [[LEFT]], "x": 1}}, 422, "Extra inp", id="unknown"),
    ],
)
def test_refuses_bodies(studio, path, what, status, sentence):
    answer = studio.post(path, **what)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"", 422, id="empty"),
        pytest.param(b"nothing at all", 415, id="no image"),
        pytest.param(PHOTO[:-30], 422, id="truncated"),
    ],
)
@pytest.mark.parametrize("path", IMAGE_ROUTES)
def test_refuses_images(studio, path, data, status):
    answer = studio.send(path, data, {"control": [[LEFT]]} if path != "/v1/detect" else None)
    assert answer.status_code == status
    assert "image" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/v1/caption", "/v1/ways"])
@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        pytest.param({"control": []}, "control: List should have at least 1 item", id="empty"),
        pytest.param({"control": [[]]}, "control.0: List should have at least 1 item", id="an empty set"),
        pytest.param({"control": [LEFT]}, "control.0.0: Input should be a valid array", id="boxes without sets"),
        pytest.param({"control": [[LEFT[:3]]]}, "control.0.0: List should have at least 4 items", id="three numbers"),
        pytest.param({"control": [[[0, 0, "9", 9]]]}, "control.0.0.2: Input should be a valid number", id="text"),
        pytest.param({"control": [[[0, 0, 1e7, 9]]]}, "control.0.0.2: Input should be less", id="far away"),
        pytest.param(
            {"control": [[[0, 0, 41, 20]]]}, "leaves the image: requested corners within (0, 0, 40, 20)", id="out"
        ),
        pytest.param({"control": [[[9, 0, 4, 20]]]}, "inverted or empty", id="inverted"),
        pytest.param({"control": [[LEFT]] * 11}, "control: List should have at most 10 items", id="many sets"),
        pytest.param({"control": [[LEFT] * 11]}, "control.0: List should have at most 10 items", id="many boxes"),
        pytest.param({"control": [[LEFT]], "classes": [["a", "b"]]}, "classes has another shape", id="names"),
        pytest.param({"control": [[LEFT]], "classes": [["a\nb"]]}, "requested a name of one line", id="two lines"),
        pytest.param({"control": [[LEFT]], "beam": 0}, "beam: Input should be greater", id="no beam"),
        pytest.param({"control": [[LEFT]], "beam": 11}, "beam: Input should be less", id="a wide beam"),
        pytest.param({"control": [[LEFT]], "max_length": 41}, "max_length: Input should be less", id="long"),
        pytest.param({"control": [[LEFT]], "beam": "5"}, "beam: Input should be a valid integer", id="beam as text"),
        pytest.param(
            {"control": [[LEFT]], "length_penalty": -1}, "length_penalty: Input should be gr", id="a negative power"
        ),
        pytest.param(
            {"control": [[LEFT]], "length_penalty": 11}, "length_penalty: Input should be le", id="a large power"
        ),
        pytest.param(
            {"control": [[LEFT]], "length_penalty": "1"}, "length_penalty: Input should be a v", id="power as text"
        ),
        pytest.param(
            {"control": [[LEFT]], "no_repeat_ngram_size": -1},
            "no_repeat_ngram_size: Input should be greater",
            id="below none",
        ),
        pytest.param(
            {"control": [[LEFT]], "no_repeat_ngram_size": 41},
            "no_repeat_ngram_size: Input should be less",
            id="longer than all",
        ),
        pytest.param(
            {"control": [[LEFT]], "no_repeat_ngram_size": 2.5},
            "no_repeat_ngram_size: Input should be a valid int",
            id="a half",
        ),
        pytest.param(
            {"control": [[LEFT]], "no_repeat_ngram_size": True},
            "no_repeat_ngram_size: Input should be a valid int",
            id="a yes",
        ),
        pytest.param({"control": [[LEFT]], "ordered": 1}, "ordered: Input should be a valid boolean", id="ordered"),
        pytest.param(
            {"control": [[LEFT], [RIGHT]], "cover": True, "max_length": 2}, "need 3 words with the end", id="cover"
        ),
    ],
)
def test_refuses_controls_and_options(studio, path, request_, sentence):
    answer = studio.send(path, PHOTO, request_)
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


@pytest.mark.parametrize("path", ["/v1/caption", "/v1/ways"])
@pytest.mark.parametrize(
    ("control", "box"),
    [
        pytest.param([[[4, 0, 4, 20]]], "(4.0, 0.0, 4.0, 20.0)", id="no width"),
        pytest.param([[[9, 0, 4, 20]]], "(9.0, 0.0, 4.0, 20.0)", id="x2 < x1"),
        pytest.param([[[0, 9, 9, 4]]], "(0.0, 9.0, 9.0, 4.0)", id="y2 < y1"),
        pytest.param([[LEFT], [RIGHT, [9, 0, 4, 20]]], "(9.0, 0.0, 4.0, 20.0)", id="after boxes that are right"),
    ],
)
def test_refuses_an_inverted_box_in_one_line_that_names_it(studio, path, control, box):
    answer = studio.send(path, PHOTO, {"control": control})
    assert answer.status_code == 422
    assert answer.json() == {"error": f"box {box} is inverted or empty: requested x1 < x2 and y1 < y2"}


@pytest.mark.parametrize(
    ("path", "request_", "sentence"),
    [
        pytest.param("/v1/caption", {"classes": [["a"]]}, "classes came without control", id="names of nothing"),
        pytest.param("/v1/caption", {"n_best": 3, "beam": 2}, "n_best is 3 but a beam holds 2", id="n_best"),
        pytest.param("/v1/caption", {"image": ID}, "requested one of them", id="bytes and id"),
        pytest.param("/v1/ways", {}, "control: Field required", id="ways of nothing"),
        pytest.param("/v1/ways", {"control": [[LEFT]], "number": 21}, "number: Input should be less", id="many ways"),
        pytest.param("/v1/detect", {"limit": 0}, "limit: Input should be greater", id="no regions"),
        pytest.param("/v1/detect", {"control": [[LEFT]]}, "control: Extra inputs", id="a control to detect"),
    ],
)
def test_refuses_what_is_no_request_of_its_route(studio, path, request_, sentence):
    answer = studio.send(path, PHOTO, request_)
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


def test_refuses_a_set_without_a_sorter():
    with opened_app(tiny_captioner(sorter=None)) as studio:
        request = {"control": [[LEFT], [RIGHT]], "ordered": False}
        for path in ("/v1/caption", "/v1/ways"):
            answer = studio.send(path, PHOTO, request)
            assert answer.status_code == 422
            assert "the model has no sorter" in answer.json()["error"]
        assert captions(studio.send("/v1/caption", PHOTO, {**request, "control": [[LEFT]]}))


@pytest.mark.parametrize(
    ("what", "status", "sentence"),
    [
        pytest.param({}, 415, "requested application/json", id="no body"),
        pytest.param({"json": {"predictions": []}}, 422, "at least 1 item", id="no captions"),
        pytest.param({"json": {"predictions": [{"prediction": "a"}]}}, 422, "references", id="no references"),
        pytest.param(
            {"json": {"predictions": [{"prediction": "a", "references": []}]}}, 422, "at least 1", id="none of them"
        ),
        pytest.param(
            {"json": {"predictions": [{"prediction": "a", "references": ["a"]}], "metrics": ["M"]}},
            422,
            "metrics.0",
            id="a metric that needs Java",
        ),
        pytest.param(
            {"json": {"predictions": [{"prediction": "a" * 501, "references": ["a"]}]}}, 422, "500", id="a long text"
        ),
    ],
)
def test_refuses_scores(studio, what, status, sentence):
    answer = studio.post("/v1/score", **what)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def test_limits_on_bytes():
    with opened_app(image_bytes=1000, json_bytes=500) as studio:
        assert studio.send("/v1/detect", PHOTO).status_code == 200
        large = studio.send("/v1/detect", bytes(1001))
        assert large.status_code == 413
        assert "the image has 1001 bytes" in large.json()["error"]
        huge = studio.send("/v1/detect", bytes(50_000))
        assert huge.status_code == 413
        assert "the body has" in huge.json()["error"]

        async def endless():
            while True:
                yield b"x" * 1000

        headers = {"content-type": "multipart/form-data; boundary=x"}
        assert studio.post("/v1/detect", content=endless(), headers=headers).status_code == 413
        long = {"control": [[LEFT]], "classes": [["z" * 99]] * 6}
        assert studio.send("/v1/caption", PHOTO, long).status_code == 413
        line = {"prediction": "a", "references": ["b" * 400]}
        assert studio.post("/v1/score", json={"predictions": [line] * 2}).status_code == 413
        assert studio.figures()["sct_in_flight"] == 0


def test_limits_on_pixels():
    with opened_app(megapixels=0.0007) as studio:
        answer = studio.send("/v1/detect", PHOTO)
        assert answer.status_code == 413
        assert "40 x 20 pixels" in answer.json()["error"]


def test_unknown_routes_and_methods_are_json_too(studio):
    assert studio.get("/v1/nothing").json() == {"error": "GET /v1/nothing: there is no such route"}
    answer = studio.get("/v1/caption")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert answer.json() == {"error": "GET /v1/caption: this route takes another method"}
    for path in ("/docs", "/redoc", "/openapi.json", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"):
        assert studio.get(path).status_code == 404


def test_a_fault_is_told_without_its_details(monkeypatch, caplog):
    captioner = tiny_captioner()

    def fail(requests, options):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(captioner, "caption_batch", fail)
    with opened_app(captioner) as studio:
        answer = studio.send("/v1/caption", PHOTO, {"control": [[LEFT]]})
        assert answer.status_code == 500
        assert answer.json() == {"error": "a fault of the server; its log tells more"}
        assert "secret" in caplog.text
        assert studio.send("/v1/detect", PHOTO).status_code == 200, "it goes on"


def test_a_request_with_a_fault_does_not_spoil_those_beside_it():
    """What is only noticed inside a batch is told to the one it is about."""
    from sct.errors import InputError
    from sct.serving.counters import Counters
    from sct.serving.image_cache import Memory
    from sct.serving.inference import BatchInference, CaptionTask
    from sct.serving.multipart import decode_upload

    answerer = BatchInference(tiny_captioner(), Memory(10**6), Counters())
    image = decode_upload(PHOTO, ID, 1.0)
    good = CaptionTask(image, None, None, CaptionOptions(), 1)
    bad = CaptionTask(image, None, None, CaptionOptions(cover=True, max_length=2), 1)
    first, second, third = answerer.answer([good, bad, good])
    assert isinstance(second, InputError)
    assert first.captions == third.captions
    assert answerer.answer([]) == []


def test_openapi_has_an_example_for_every_route(studio):
    described = studio.get("/v1/openapi.json").json()
    assert set(described["paths"]) == {
        "/v1/caption", "/v1/ways", "/v1/detect", "/v1/score", "/v1/health", "/v1/metrics",
    }  # fmt: skip
    schemas = described["components"]["schemas"]
    for path, methods in described["paths"].items():
        for operation in methods.values():
            [(kind, content)] = operation["responses"]["200"]["content"].items()
            assert kind == ("text/plain" if path == "/v1/metrics" else "application/json")
            name = content["schema"].get("$ref", "").rpartition("/")[2]
            assert content.get("example") or schemas[name]["examples"]
            for body in operation.get("requestBody", {}).get("content", {}).values():
                assert body["example"]


def test_examples_of_requests_are_accepted(studio):
    described = studio.get("/v1/openapi.json").json()
    large = photo(RED, GREEN, BLUE, width=340, height=320)
    named = studio.send("/v1/detect", large).json()["image"]["id"]
    for path, methods in described["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {})
        for kind, body in content.items():
            if kind == "application/json":
                example = {**body["example"], **({"image": named} if "image" in body["example"] else {})}
                assert studio.post(path, json=example).status_code == 200
            else:
                assert studio.send(path, large, body["example"]["request"]).status_code == 200
