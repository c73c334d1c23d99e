"""Responses and errors of every route."""

import json

import pytest
from PIL import Image

from sct.captioner.captioner import Captioner
from sct.captioner.requests import CaptionOptions
from sct.regions.images import load_image
from sct.serving.multipart import image_id
from sct.serving.responses import RESPONSE_EXAMPLES
from tests.color_vision import BLUE, GREEN, RED
from tests.factories import make_captioner, make_captioner_parts, make_vision_encoder
from tests.serving.helpers import LEFT, RIGHT, SMALL, encode_file, open_app, photo, wait_until

PHOTO = photo()
ID = image_id(PHOTO)
IMAGE_ROUTES = ["/v1/caption", "/v1/alternatives", "/v1/detect"]


@pytest.fixture(scope="module")
def client():
    with open_app() as client:
        yield client


@pytest.fixture(scope="module")
def captioner():
    return make_captioner()


def captions(response):
    assert response.status_code == 200, response.text
    return response.json()["captions"]


def to_json(value):
    return json.loads(json.dumps(value))


def test_captions_equal_those_of_the_library(client, captioner):
    response = client.upload("/v1/caption", PHOTO, {"control": [[LEFT], [RIGHT, SMALL]], "n_best": 3, "cover": True})
    assert response.json()["image"] == {"id": ID, "width": 40, "height": 20}
    options = CaptionOptions(n_best=3, cover=True, no_repeat_ngram_size=2)
    [library] = captioner.caption_images([_request(PHOTO, [LEFT, [RIGHT, SMALL]])], options)
    assert len(library) == 3
    for ours, theirs in zip(captions(response), library, strict=True):
        assert ours["log_prob"] == pytest.approx(theirs.log_prob, abs=1e-4)
        expected = to_json(theirs.as_dict())
        assert {**ours, "log_prob": 0, "words": 0} == {**expected, "log_prob": 0, "words": 0}
        assert [word["region_set"] for word in ours["words"]] == [word["region_set"] for word in expected["words"]]


def _request(data, regions, *, ordered=True):
    from sct.captioner.requests import ImageRequest
    from sct.regions.parsing import as_control

    return ImageRequest(load_image(data), as_control(regions, ordered=ordered))


@pytest.mark.parametrize(
    ("mode", "request_", "no_repeat_ngram_size"),
    [
        pytest.param("paper", {}, 2, id="default"),
        pytest.param("paper", {"no_repeat_ngram_size": None}, 2, id="null"),
        pytest.param("paper", {"no_repeat_ngram_size": 0}, 0, id="off"),
        pytest.param("paper", {"no_repeat_ngram_size": 1}, 1, id="unigrams"),
        pytest.param("reference", {}, 0, id="reference mode"),
        pytest.param("reference", {"no_repeat_ngram_size": 2}, 2, id="reference mode, given"),
    ],
)
def test_no_repeat_ngram_size(mode, request_, no_repeat_ngram_size):
    captioner = make_captioner(mode=mode)
    options = CaptionOptions(no_repeat_ngram_size=no_repeat_ngram_size)
    with open_app(captioner) as client:
        [caption] = captions(client.upload("/v1/caption", PHOTO, {"control": [[LEFT], [RIGHT]], **request_}))
        alternatives = captions(client.upload("/v1/alternatives", PHOTO, {"control": [[LEFT], [RIGHT]], **request_}))
    assert caption["text"] == captioner.caption(PHOTO, [LEFT, RIGHT], options=options).text
    other = CaptionOptions(no_repeat_ngram_size=0 if no_repeat_ngram_size else 2)
    assert caption["text"] != captioner.caption(PHOTO, [LEFT, RIGHT], options=other).text, "the setting matters here"
    boxes = [LEFT, RIGHT]
    assert alternatives
    for alternative in alternatives:
        order = [boxes[number] for number in alternative["order"]["sets"]]
        assert alternative["text"] == captioner.caption(PHOTO, order, options=options).text


@pytest.mark.parametrize(
    ("own", "request_", "used"),
    [
        pytest.param(0.0, {}, 0.0, id="default"),
        pytest.param(1.0, {}, 1.0, id="of the model"),
        pytest.param(1.0, {"length_penalty": None}, 1.0, id="null"),
        pytest.param(1.0, {"length_penalty": 0}, 0.0, id="off"),
        pytest.param(0.0, {"length_penalty": 1}, 1.0, id="of the request"),
    ],
)
def test_length_penalty(captioner, own, request_, used):
    with open_app(make_captioner(length_penalty=own)) as client:
        [caption] = captions(client.upload("/v1/caption", PHOTO, {"control": [[LEFT]], **request_}))
        alternatives = captions(client.upload("/v1/alternatives", PHOTO, {"control": [[LEFT], [RIGHT]], **request_}))
    expected, other = (
        captioner.caption(PHOTO, [LEFT], options=CaptionOptions(no_repeat_ngram_size=2, length_penalty=power)).text
        for power in (used, 1.0 - used)
    )
    assert caption["text"] == expected
    assert expected != other, "the setting matters here"
    [left] = [alternative["text"] for alternative in alternatives if alternative["order"]["sets"] == [0]]
    assert left == expected


def test_caption_record(client):
    [caption] = captions(client.upload("/v1/caption", PHOTO, {"control": [[LEFT], [RIGHT, SMALL]], "cover": True}))
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
    params = {"control": caption["control"], "classes": caption["names"], "cover": True}
    assert captions(client.upload("/v1/caption", PHOTO, params))[0]["text"] == caption["text"], (
        "a response can be sent as a request"
    )


def test_regions_are_detected_and_sorted_without_a_control(client):
    [caption] = captions(client.upload("/v1/caption", PHOTO))
    assert caption["classes"] == [["red"], ["green"], ["blue"]]
    assert caption["order"]["sets"] == [1, 2, 0], "the sorter orders green, blue, red"


def test_relative_boxes(client):
    request = {"control": [[[0, 0, 0.5, 1]]], "relative": True}
    answer = client.upload("/v1/caption", PHOTO, request).json()
    assert answer["captions"][0]["control"] == [[[0, 0, 20, 20]]]
    assert answer["warnings"] == []
    refused = client.upload("/v1/caption", PHOTO, {**request, "relative": False})
    assert refused.status_code == 422
    assert "not fractions" in refused.text


def test_unordered_control_is_sorted(client):
    request = {"control": [[LEFT], [RIGHT]], "ordered": False, "n_best": 2}
    for caption in captions(client.upload("/v1/caption", PHOTO, request)):
        assert caption["order"]["sets"] == [1, 0]
        assert caption["classes"] == [["red"], ["green"]]


@pytest.fixture(scope="module")
def noun_client():
    """Client of a server whose model knows two nouns."""
    with open_app(Captioner(**make_captioner_parts(), nouns=("man", "dog"))) as client:
        yield client


def test_names_are_said(noun_client):
    request = {"control": [[LEFT], [RIGHT]], "classes": [["dog"], ["man"]], "n_best": 2}
    for caption in captions(noun_client.upload("/v1/caption", PHOTO, request)):
        assert caption["names"] == caption["classes"] == [["dog"], ["man"]]
        first, second = caption["chunks"]
        assert (first["region_set"], second["region_set"]) == (0, 1)
        assert first["text"].endswith("dog")
        assert "man" in second["text"]
        assert first["fits"] is None, "the model has no calibration"


@pytest.mark.parametrize(
    ("request_fields", "message"),
    [
        pytest.param({"classes": [["dgo"]]}, "did you mean dog", id="unknown name"),
        pytest.param({"banned_words": ["doog"]}, "did you mean dog", id="unknown banned word"),
        pytest.param({"required_words": ["zzz"]}, "not among the", id="unknown required word"),
        pytest.param({"classes": [["dog"]], "banned_words": ["dog"]}, "as a banned word", id="banned name"),
        pytest.param({"min_fit": 0.5}, "no calibrated fits", id="min_fit without calibration"),
        pytest.param({"min_fit": 2}, "min_fit", id="min_fit out of range"),
    ],
)
def test_rejects_words(noun_client, request_fields, message):
    response = noun_client.upload("/v1/caption", PHOTO, {"control": [[LEFT]], **request_fields})
    assert response.status_code == 422
    assert message in response.json()["error"]


def test_banned_and_required_words(noun_client):
    request = {"control": [[LEFT], [RIGHT]], "banned_words": ["dog"], "required_words": ["rides"]}
    [caption] = captions(noun_client.upload("/v1/caption", PHOTO, request))
    assert "dog" not in caption["text"].split()
    assert "rides" in caption["text"].split()


def test_images_are_cached(client):
    sent = client.upload("/v1/detect", PHOTO).json()
    encoded = client.metrics()["sct_images_encoded_total"]
    by_id = client.post("/v1/detect", json={"image": ID}).json()
    assert by_id == sent
    by_id = captions(client.post("/v1/caption", json={"image": ID, "control": [[LEFT]]}))
    assert by_id == captions(client.upload("/v1/caption", PHOTO, {"control": [[LEFT]]}))
    assert client.metrics()["sct_images_encoded_total"] == encoded, (
        "neither the id nor the same bytes are encoded again"
    )


def test_region_encoder_runs_once_per_image(monkeypatch):
    vision, batches = make_vision_encoder(), []
    encode_pixels = vision.network.encode_pixels
    monkeypatch.setattr(
        vision.network, "encode_pixels", lambda images: batches.append(len(images)) or encode_pixels(images)
    )
    with open_app(make_captioner(vision=vision, sorter=None, feature_size=16)) as client:
        first = captions(client.upload("/v1/caption", PHOTO, {"control": [[LEFT]]}))
        for control in ([[LEFT]], [[RIGHT], [SMALL]], None):
            captions(client.post("/v1/caption", json={"image": ID, "control": control}))
        assert captions(client.upload("/v1/caption", PHOTO, {"control": [[LEFT]]})) == first
    assert batches == [1]


def test_evicted_image_is_a_404():
    with open_app(cache_bytes=8000) as client:
        assert client.upload("/v1/detect", PHOTO).status_code == 200
        assert client.metrics()["sct_image_cache_images"] == 1
        assert client.upload("/v1/detect", photo(BLUE)).status_code == 200
        assert client.metrics()["sct_image_cache_bytes"] <= 8000
        response = client.post("/v1/detect", json={"image": ID})
        assert response.status_code == 404
        assert response.json() == {"error": f"image {ID} is not cached: send its bytes"}


def test_alternatives(client, captioner):
    request = {"control": [[LEFT], [RIGHT], [SMALL]], "limit": 20, "cover": True}
    found = captions(client.upload("/v1/alternatives", PHOTO, request))
    assert len({caption["text"] for caption in found}) == len(found) >= 3
    log_probs = [caption["log_prob"] for caption in found]
    assert log_probs == sorted(log_probs, reverse=True)
    orders = [tuple(caption["order"]["sets"]) for caption in found]
    assert (0, 1, 2) not in orders, "the order of the request is left out"
    assert {len(order) for order in orders} >= {1, 2}
    boxes = [LEFT, RIGHT, SMALL]
    for caption, order in zip(found, orders, strict=True):
        assert caption["control"] == [[LEFT], [RIGHT], [SMALL]]
        assert list(dict.fromkeys(word["region_set"] for word in caption["words"])) == list(order), (
            "all sets, in this order"
        )
        options = CaptionOptions(cover=True, no_repeat_ngram_size=2)
        expected = captioner.caption(PHOTO, [boxes[number] for number in order], options=options)
        assert caption["text"] == expected.text
        assert caption["log_prob"] == pytest.approx(expected.log_prob, abs=1e-4)
    some = captions(client.upload("/v1/alternatives", PHOTO, {**request, "limit": 2}))
    assert len(some) == 2


def test_alternatives_are_ranked_by_length_penalty(client):
    request = {"control": [[LEFT], [RIGHT], [SMALL]], "limit": 20, "length_penalty": 1.0}
    found = captions(client.upload("/v1/alternatives", PHOTO, request))
    scores = [caption["log_prob"] / min(len(caption["words"]) + 1, 20) for caption in found]
    assert scores == sorted(scores, reverse=True)
    log_probs = [caption["log_prob"] for caption in found]
    assert log_probs != sorted(log_probs, reverse=True), "the rankings differ here"


def test_alternatives_of_an_unordered_control(client):
    request = {"control": [[LEFT], [RIGHT]], "ordered": False, "limit": 20}
    orders = {
        tuple(caption["order"]["sets"]) for caption in captions(client.upload("/v1/alternatives", PHOTO, request))
    }
    assert orders <= {(0,), (1,), (0, 1), (1, 0)}


def test_one_region_set_has_no_alternatives(client):
    assert captions(client.upload("/v1/alternatives", PHOTO, {"control": [[LEFT, RIGHT]]})) == []


def test_constraints_that_no_caption_meets(client):
    """More region sets to cover than the vocabulary has words, none of which may be repeated."""
    request = {"control": [[LEFT]] * 10, "cover": True, "no_repeat_ngram_size": 1, "max_length": 40}
    response = client.upload("/v1/caption", PHOTO, request)
    assert response.status_code == 422
    assert "meets all constraints" in response.json()["error"]


def test_uploads_while_the_pool_stops():
    with open_app() as client:
        client.app.state.service._decoding.stop()
        response = client.upload("/v1/detect", PHOTO)
    assert (response.status_code, response.json()) == (503, {"error": "the server is stopping: retry later"})


def test_detect(client, captioner):
    response = client.upload("/v1/detect", PHOTO, {"limit": 2}).json()
    assert response["image"] == {"id": ID, "width": 40, "height": 20}
    assert response["regions"] == [
        {"box": [0, 0, 20, 10], "class": "red", "score": pytest.approx(220 / 255)},
        {"box": [20, 0, 40, 10], "class": "green", "score": pytest.approx(200 / 255)},
    ]
    nothing = client.upload("/v1/detect", encode_file(load_image(PHOTO).pixels * 0)).json()
    assert nothing["regions"] == []


def test_score(client):
    predictions = [
        {"prediction": "a dog runs in grass", "references": ["a dog runs in grass"]},
        {"prediction": "a cat", "references": ["a bird", "two birds"]},
    ]
    response = client.post("/v1/score", json={"predictions": predictions, "metrics": ["C", "B1", "R"]}).json()
    assert response["scores"]["C"] == pytest.approx(500), "10 and 0, times 100 / 2"
    assert list(response["scores"]) == ["C", "B1", "R"]
    assert response["groups"] == 2
    assert response["unavailable"] == {}
    assert [line["C"] for line in response["per_caption"]] == pytest.approx([1000, 0])
    assert list(client.post("/v1/score", json={"predictions": predictions[:1]}).json()["scores"]) == ["B4", "R", "C"]


def test_tagger_and_word_vectors_are_loaded_once(client, monkeypatch):
    pytest.importorskip("spacy", reason="the prepare extra is not installed")
    request = {"predictions": [{"prediction": "a dog", "references": ["a cat"]}], "metrics": ["NW", "IoU"]}
    first = client.post("/v1/score", json=request).json()
    assert first["unavailable"] == {}

    def load_again(*_, **__):
        raise AssertionError

    monkeypatch.setattr("sct.language.pos_tags.PosTagger.__init__", load_again)
    monkeypatch.setattr("sct.language.word_vectors.WordVectors.__init__", load_again)
    assert client.post("/v1/score", json=request).json() == first


def test_health(client):
    response = client.get("/v1/health").json()
    assert response["status"] == "ok"
    assert response["model"] == {"vocabulary_size": 10, "has_vision": True, "has_sorter": True}
    assert response["limits"]["image_bytes"] == 10 * 2**20
    assert response["limits"]["region_sets"] == 10
    assert response["limits"]["references"] == 20
    assert response["limits"]["caption_characters"] == 500
    assert response["limits"]["class_characters"] == 100
    assert response["limits"].keys() == RESPONSE_EXAMPLES["/v1/health"]["limits"].keys()
    assert response["metrics"] == ["B1", "B2", "B3", "B4", "R", "C", "NW", "IoU"]
    with open_app(make_captioner(vision=None, sorter=None)) as no_vision:
        assert no_vision.get("/v1/health").json()["model"] == {
            "vocabulary_size": 10,
            "has_vision": False,
            "has_sorter": False,
        }
        response = no_vision.upload("/v1/caption", PHOTO)
        assert response.status_code == 422
        assert "the bundle has no vision encoder" in response.json()["error"]


def test_health_is_degraded_while_the_model_cannot_run(monkeypatch):
    captioner = make_captioner()
    calls = []

    def die_once(requests, options, search=captioner.caption_batch):
        calls.append(requests)
        if len(calls) == 1:
            raise SystemExit
        return search(requests, options)

    monkeypatch.setattr(captioner, "caption_batch", die_once)
    with open_app(captioner, restart_delay=60.0) as client:
        assert client.get("/v1/health").status_code == 200
        assert client.upload("/v1/caption", PHOTO, {"control": [[LEFT]]}).status_code == 500
        wait_until(lambda: client.get("/v1/health").status_code == 503)
        assert client.get("/v1/health").json()["status"] == "degraded"
    calls.clear()
    with open_app(captioner, restart_delay=0.0) as client:
        assert client.upload("/v1/caption", PHOTO, {"control": [[LEFT]]}).status_code == 500
        wait_until(lambda: client.metrics()["sct_model_restarts_total"] == 1)
        assert client.upload("/v1/caption", PHOTO, {"control": [[LEFT]]}).status_code == 200
        assert client.get("/v1/health").json()["status"] == "ok"


def test_prometheus_metrics():
    with open_app() as client:
        client.upload("/v1/detect", PHOTO)
        client.get("/nowhere")
        response = client.get("/v1/metrics")
        assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        metrics = client.metrics()
        assert metrics['sct_requests_total{route="/v1/detect",status="200"}'] == 1
        assert metrics['sct_requests_total{route="other",status="404"}'] == 1
        assert metrics['sct_request_seconds_bucket{route="/v1/detect",le="+Inf"}'] == 1
        assert metrics["sct_requests_in_flight"] == 0
        assert metrics["sct_images_encoded_total"] == 1
        assert metrics["sct_image_cache_images"] == 1
        assert metrics["process_resident_memory_bytes"] > 1e6


@pytest.mark.parametrize("path", IMAGE_ROUTES)
@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        pytest.param({}, 415, "expected multipart/form-data or application/json", id="no body"),
        pytest.param({"json": {}}, 422, "", id="neither image nor id"),
        pytest.param({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "JSON", id="no json"),
        pytest.param({"content": b"[]", "headers": {"content-type": "application/json"}}, 422, "object", id="a list"),
        pytest.param(
            {"content": b"\xff", "headers": {"content-type": "application/json"}}, 400, "JSON", id="invalid UTF-8"
        ),
        pytest.param(
            {"content": b"[" * 200_000, "headers": {"content-type": "application/json"}}, 400, "JSON", id="deep"
        ),
        pytest.param(
            {"content": b'{"image": ' * 100_000, "headers": {"content-type": "application/json"}},
            400,
            "JSON",
            id="deep 2",
        ),
        pytest.param(
            {"content": b'{"image": "\\ud800"}', "headers": {"content-type": "application/json"}},
            400,
            "JSON",
            id="lone surrogate",
        ),
        pytest.param({"files": {"request": b"{}"}}, 422, "no part 'image'", id="a form without an image"),
        pytest.param({"data": {"a": "b"}}, 415, "x-www-form-urlencoded", id="urlencoded form"),
        pytest.param(
            {"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400, "boundary", id="no boundary"
        ),
        pytest.param({"files": {"image": PHOTO, "more": b"1"}}, 422, "has a part 'more'", id="another part"),
        pytest.param({"files": {"image": PHOTO, "request": b"{]"}}, 400, "JSON", id="no json in a form"),
        pytest.param({"json": {"image": "../../etc/passwd"}}, 422, "image: String should match", id="a path"),
        pytest.param({"json": {"image": "0" * 64, "control": [[LEFT]], "x": 1}}, 422, "Extra inp", id="unknown field"),
    ],
)
def test_invalid_bodies(client, path, options, status, message):
    response = client.post(path, **options)
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    assert message in response.json()["error"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"", 422, id="empty"),
        pytest.param(b"nothing at all", 415, id="no image"),
        pytest.param(PHOTO[:-30], 422, id="truncated"),
    ],
)
@pytest.mark.parametrize("path", IMAGE_ROUTES)
def test_invalid_images(client, path, data, status):
    response = client.upload(path, data, {"control": [[LEFT]]} if path != "/v1/detect" else None)
    assert response.status_code == status
    assert "image" in response.json()["error"]


@pytest.mark.parametrize("path", ["/v1/caption", "/v1/alternatives"])
@pytest.mark.parametrize(
    ("request_", "message"),
    [
        pytest.param({"control": []}, "control: List should have at least 1 item", id="empty"),
        pytest.param({"control": [[]]}, "control.0: List should have at least 1 item", id="an empty set"),
        pytest.param({"control": [LEFT]}, "control.0.0: Input should be a valid array", id="boxes without sets"),
        pytest.param({"control": [[LEFT[:3]]]}, "control.0.0: List should have at least 4 items", id="three numbers"),
        pytest.param({"control": [[[0, 0, "9", 9]]]}, "control.0.0.2: Input should be a valid number", id="text"),
        pytest.param({"control": [[[0, 0, 1e9, 9]]]}, "control.0.0.2: Input should be less", id="large coordinate"),
        pytest.param({"control": [[[0, 0, 1e999, 9]]]}, "control.0.0.2: Input should be a finite", id="infinite"),
        pytest.param(
            {"control": [[[0, 0, 49, 20]]]}, "leaves the image: expected corners within (0, 0, 40, 20)", id="out"
        ),
        pytest.param({"control": [[[0.1, 0.1, 0.5, 0.5]]]}, "expected pixels, not fractions", id="fractions"),
        pytest.param({"control": [[[9, 0, 4, 20]]]}, "inverted or empty", id="inverted"),
        pytest.param({"control": [[LEFT]] * 11}, "control: List should have at most 10 items", id="many sets"),
        pytest.param({"control": [[LEFT] * 11]}, "control.0: List should have at most 10 items", id="many boxes"),
        pytest.param({"control": [[LEFT]], "classes": [["a", "b"]]}, "classes and control differ in shape", id="names"),
        pytest.param({"control": [[LEFT]], "classes": [["a\nb"]]}, "classes.0.0: String should match", id="two lines"),
        pytest.param({"control": [[LEFT]], "classes": [[]]}, "classes.0: List should have at least", id="no names"),
        pytest.param({"control": [[LEFT]], "beam_size": 0}, "beam_size: Input should be greater", id="no beam"),
        pytest.param({"control": [[LEFT]], "beam_size": 11}, "beam_size: Input should be less", id="large beam"),
        pytest.param({"control": [[LEFT]], "max_length": 41}, "max_length: Input should be less", id="long"),
        pytest.param(
            {"control": [[LEFT]], "beam_size": "5"}, "beam_size: Input should be a valid integer", id="beam as text"
        ),
        pytest.param(
            {"control": [[LEFT]], "length_penalty": -1}, "length_penalty: Input should be gr", id="negative penalty"
        ),
        pytest.param(
            {"control": [[LEFT]], "length_penalty": 11}, "length_penalty: Input should be le", id="large penalty"
        ),
        pytest.param(
            {"control": [[LEFT]], "length_penalty": "1"}, "length_penalty: Input should be a v", id="penalty as text"
        ),
        pytest.param(
            {"control": [[LEFT]], "no_repeat_ngram_size": -1},
            "no_repeat_ngram_size: Input should be greater",
            id="negative ngram",
        ),
        pytest.param(
            {"control": [[LEFT]], "no_repeat_ngram_size": 41},
            "no_repeat_ngram_size: Input should be less",
            id="large ngram",
        ),
        pytest.param(
            {"control": [[LEFT]], "no_repeat_ngram_size": 2.5},
            "no_repeat_ngram_size: Input should be a valid int",
            id="fractional ngram",
        ),
        pytest.param(
            {"control": [[LEFT]], "no_repeat_ngram_size": True},
            "no_repeat_ngram_size: Input should be a valid int",
            id="boolean ngram",
        ),
        pytest.param({"control": [[LEFT]], "ordered": 1}, "ordered: Input should be a valid boolean", id="ordered"),
        pytest.param(
            {"control": [[LEFT], [RIGHT]], "cover": True, "max_length": 2}, "need 3 words with EOS", id="cover"
        ),
    ],
)
def test_invalid_controls_and_options(client, path, request_, message):
    response = client.upload(path, PHOTO, request_)
    assert response.status_code == 422
    assert message in response.json()["error"]


@pytest.mark.parametrize("path", ["/v1/caption", "/v1/alternatives"])
@pytest.mark.parametrize(
    ("control", "box"),
    [
        pytest.param([[[4, 0, 4, 20]]], "(4.0, 0.0, 4.0, 20.0)", id="no width"),
        pytest.param([[[9, 0, 4, 20]]], "(9.0, 0.0, 4.0, 20.0)", id="x2 < x1"),
        pytest.param([[[0, 9, 9, 4]]], "(0.0, 9.0, 9.0, 4.0)", id="y2 < y1"),
        pytest.param([[LEFT], [RIGHT, [9, 0, 4, 20]]], "(9.0, 0.0, 4.0, 20.0)", id="after valid boxes"),
    ],
)
def test_inverted_box_is_named_in_one_line(client, path, control, box):
    response = client.upload(path, PHOTO, {"control": control})
    assert response.status_code == 422
    assert response.json() == {"error": f"box {box} is inverted or empty: expected x1 < x2 and y1 < y2"}


@pytest.mark.parametrize(
    ("path", "request_", "message"),
    [
        pytest.param("/v1/caption", {"image": ID}, "expected one of them", id="bytes and id"),
        pytest.param("/v1/caption", {"image": None}, "expected one of them", id="bytes and no id"),
        pytest.param("/v1/alternatives", {}, "control: Field required", id="no control"),
        pytest.param(
            "/v1/alternatives", {"control": [[LEFT]], "limit": 21}, "limit: Input should be less", id="large limit"
        ),
        pytest.param("/v1/detect", {"limit": 0}, "limit: Input should be greater", id="no regions"),
        pytest.param("/v1/detect", {"control": [[LEFT]]}, "control: Extra inputs", id="control for detect"),
    ],
)
def test_invalid_fields(client, path, request_, message):
    response = client.upload(path, PHOTO, request_)
    assert response.status_code == 422
    assert message in response.json()["error"]


@pytest.mark.parametrize("path", ["/v1/caption", "/v1/alternatives"])
def test_boxes_slightly_outside_are_clipped_with_a_warning(client, path):
    inside = client.upload(path, PHOTO, {"control": [[LEFT], [RIGHT]]}).json()
    outside = client.upload(path, PHOTO, {"control": [[[-3, -2, 20, 20]], [[20, 0, 47.5, 21]]]}).json()
    assert inside["warnings"] == []
    assert outside["warnings"] == ["boxes were clipped to the image, 40 x 20 pixels"]
    assert outside["captions"] == inside["captions"]
    assert outside["captions"][0]["control"] == [[LEFT], [RIGHT]]


def test_integers_may_have_a_fraction_of_zero(client):
    """JSON Schema does not tell 5 from 5.0."""
    request = b'{"control": [[[0, 0, 20, 20]]], "beam_size": 2.0, "n_best": 2.0}'
    response = client.post("/v1/caption", files={"image": PHOTO, "request": (None, request)})
    assert len(captions(response)) == 2


@pytest.mark.parametrize("digits", [20, 5000, 100_000])
@pytest.mark.parametrize("text", ['{"control": [[[0, 0, %s, 9]]]}', '{"beam_size": %s}', '{"beam_size": 1e%s}'])
def test_huge_numbers_are_rejected(client, text, digits):
    request = (text % ("9" * digits)).encode()
    response = client.post("/v1/caption", files={"image": PHOTO, "request": (None, request)})
    assert response.status_code in (400, 422), response.text
    assert len(response.text) < 300


def test_the_beam_has_at_least_n_best_hypotheses(client):
    request = {"control": [[LEFT]], "n_best": 3}
    assert captions(client.upload("/v1/caption", PHOTO, {**request, "beam_size": 1})) == captions(
        client.upload("/v1/caption", PHOTO, {**request, "beam_size": 3})
    )


def test_classes_without_a_control_are_ignored(client):
    assert captions(client.upload("/v1/caption", PHOTO, {"classes": [["a"]]})) == captions(
        client.upload("/v1/caption", PHOTO)
    )


def test_orientations_that_do_not_exist_are_ignored(client):
    exif = Image.Exif()
    exif[0x0112] = 99
    file = encode_file(load_image(PHOTO).pixels, exif=exif.tobytes())
    assert client.upload("/v1/detect", file).json()["image"] == {"id": image_id(file), "width": 40, "height": 20}


def test_unordered_control_without_a_sorter_is_rejected():
    with open_app(make_captioner(sorter=None)) as client:
        request = {"control": [[LEFT], [RIGHT]], "ordered": False}
        for path in ("/v1/caption", "/v1/alternatives"):
            response = client.upload(path, PHOTO, request)
            assert response.status_code == 422
            assert "the model has no sorter" in response.json()["error"]
        assert captions(client.upload("/v1/caption", PHOTO, {**request, "control": [[LEFT]]}))


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        pytest.param({}, 415, "expected application/json", id="no body"),
        pytest.param({"json": {"predictions": []}}, 422, "at least 1 item", id="no captions"),
        pytest.param({"json": {"predictions": [{"prediction": "a"}]}}, 422, "references", id="no references"),
        pytest.param(
            {"json": {"predictions": [{"prediction": "a", "references": []}]}}, 422, "at least 1", id="empty references"
        ),
        pytest.param(
            {"json": {"predictions": [{"prediction": "a", "references": ["a"]}], "metrics": ["M"]}},
            422,
            "metrics.0",
            id="metric that needs Java",
        ),
        pytest.param(
            {"json": {"predictions": [{"prediction": "a" * 501, "references": ["a"]}]}}, 422, "500", id="a long text"
        ),
    ],
)
def test_invalid_score_requests(client, options, status, message):
    response = client.post("/v1/score", **options)
    assert response.status_code == status
    assert message in response.json()["error"]


def test_byte_limits():
    with open_app(max_image_bytes=1000, max_json_bytes=500) as client:
        assert client.upload("/v1/detect", PHOTO).status_code == 200
        large = client.upload("/v1/detect", bytes(1001))
        assert large.status_code == 413
        assert "an image of 1001 bytes" in large.json()["error"]
        huge = client.upload("/v1/detect", bytes(50_000))
        assert huge.status_code == 413
        assert "a body of" in huge.json()["error"]

        async def endless():
            while True:
                yield b"x" * 1000

        headers = {"content-type": "multipart/form-data; boundary=x"}
        assert client.post("/v1/detect", content=endless(), headers=headers).status_code == 413
        long = {"control": [[LEFT]], "classes": [["z" * 99]] * 6}
        assert client.upload("/v1/caption", PHOTO, long).status_code == 413
        line = {"prediction": "a", "references": ["b" * 400]}
        assert client.post("/v1/score", json={"predictions": [line] * 2}).status_code == 413
        assert client.metrics()["sct_requests_in_flight"] == 0


def test_pixel_limit():
    with open_app(max_megapixels=0.0007) as client:
        response = client.upload("/v1/detect", PHOTO)
        assert response.status_code == 413
        assert "40 x 20 pixels" in response.json()["error"]


def test_unknown_routes_and_methods(client):
    assert client.get("/v1/nothing").json() == {"error": "GET /v1/nothing: no such route"}
    response = client.get("/v1/caption")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json() == {"error": "GET /v1/caption: method not allowed"}
    for path in ("/redoc", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"):
        assert client.get(path).status_code == 404


def test_internal_errors_hide_their_details(monkeypatch, caplog):
    captioner = make_captioner()

    def fail(requests, options):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(captioner, "caption_batch", fail)
    with open_app(captioner) as client:
        response = client.upload("/v1/caption", PHOTO, {"control": [[LEFT]]})
        assert response.status_code == 500
        assert response.json() == {"error": "internal error: see the server log"}
        assert "secret" in caplog.text
        assert client.upload("/v1/detect", PHOTO).status_code == 200, "the server still works"


def test_an_error_within_a_batch_affects_its_task_only():
    from sct.errors import InputError
    from sct.serving.counters import Counters
    from sct.serving.image_cache import ImageCache
    from sct.serving.inference import BatchInference, CaptionTask
    from sct.serving.multipart import decode_image

    inference = BatchInference(make_captioner(), ImageCache(10**6), Counters())
    image = decode_image(PHOTO, ID, 1.0)
    good = CaptionTask(image, None, CaptionOptions())
    bad = CaptionTask(image, None, CaptionOptions(cover=True, max_length=2))
    first, second, third = inference.run([good, bad, good])
    assert isinstance(second, InputError)
    assert first.captions == third.captions
    assert inference.run([]) == []


def test_openapi_has_examples_of_every_route(client):
    document = client.get("/v1/openapi.json").json()
    assert set(document["paths"]) == {
        "/v1/caption", "/v1/alternatives", "/v1/detect", "/v1/score", "/v1/health", "/v1/metrics",
    }  # fmt: skip
    for path, methods in document["paths"].items():
        for operation in methods.values():
            [(kind, content)] = operation["responses"]["200"]["content"].items()
            assert kind == ("text/plain" if path == "/v1/metrics" else "application/json")
            assert content["example"]
            for body in operation.get("requestBody", {}).get("content", {}).values():
                assert body["example"]


def test_request_examples_are_valid(client):
    document = client.get("/v1/openapi.json").json()
    large = photo(RED, GREEN, BLUE, width=340, height=320)
    image = client.upload("/v1/detect", large).json()["image"]["id"]
    for path, methods in document["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {})
        for kind, body in content.items():
            if kind == "application/json":
                example = {**body["example"], **({"image": image} if "image" in body["example"] else {})}
                assert client.post(path, json=example).status_code == 200
            else:
                assert client.upload(path, large, body["example"]["request"]).status_code == 200
