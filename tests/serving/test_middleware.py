"""Who may ask, and what every answer bears."""

import pytest

from tests.serving.studio_model import opened_app, photo

PHOTO = photo()
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/health"), ("GET", "/nowhere"), ("PUT", "/v1/caption"), ("POST", "/v1/detect"), ("GET", "/")],
    ids=["answer", "404", "405", "415", "page"],
)
def test_every_answer_bears_what_keeps_a_page_in_its_place(method, path):
    with opened_app() as studio:
        headers = studio.ask(method, path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert not [name for name in headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 401, id="none"),
        pytest.param({"authorization": "Bearer wrong"}, 401, id="another"),
        pytest.param({"authorization": "Bearer"}, 401, id="empty"),
        pytest.param({"authorization": "Basic secret"}, 401, id="another scheme"),
        pytest.param({"authorization": "Bearer s\u00e9cret"}, 401, id="no ASCII"),
        pytest.param({"authorization": "Bearer secret"}, 200, id="the right one"),
        pytest.param({"authorization": "bearer secret"}, 200, id="small letters"),
    ],
)
def test_a_token_is_wanted(headers, status):
    with opened_app(token="secret") as studio:
        encoded = {name: value.encode("latin-1") for name, value in headers.items()}
        answer = studio.post("/v1/detect", files={"image": PHOTO}, headers=encoded)
        assert answer.status_code == status
        if status == 401:
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "Authorization: Bearer" in answer.json()["error"]
        for path in ("/v1/metrics", "/v1/openapi.json"):
            assert studio.get(path, headers=encoded).status_code == status
        assert studio.get("/v1/health").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="no page"),
        pytest.param({"origin": "http://localhost"}, 200, id="its own page"),
        pytest.param({"origin": "http://localhost:9"}, 403, id="another port"),
        pytest.param({"origin": "https://example.org"}, 403, id="another page"),
        pytest.param({"origin": "null"}, 403, id="a page without origin"),
        pytest.param({"origin": "http://[bad"}, 403, id="no address"),
        pytest.param({"host": "example.org"}, 403, id="a name that was made to lead here"),
        pytest.param({"host": "example.org", "origin": "http://example.org"}, 403, id="the same with its page"),
        pytest.param({"host": "127.0.0.1:8765", "origin": "http://127.0.0.1:8765"}, 200, id="by its number"),
        pytest.param({"host": "[::1]:8765"}, 200, id="by its long number"),
        pytest.param({"host": "["}, 403, id="no host"),
    ],
)
def test_pages_of_others_are_refused(headers, status):
    with opened_app(hosts=LOOPBACK) as studio:
        assert studio.get("/v1/health", headers=headers).status_code == status
        assert studio.post("/v1/detect", files={"image": PHOTO}, headers=headers).status_code == status


def test_opened_to_the_network_any_host_will_do():
    with opened_app() as studio:
        assert studio.get("/v1/health", headers={"host": "studio.example.org"}).status_code == 200
        answer = studio.get("/v1/health", headers={"host": "studio.example.org", "origin": "http://other.example.org"})
        assert answer.status_code == 403


def test_a_preflight_is_refused():
    with opened_app() as studio:
        headers = {"origin": "http://example.org", "access-control-request-method": "POST"}
        answer = studio.ask("OPTIONS", "/v1/caption", headers=headers)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


def test_a_server_that_stops_takes_nothing_new():
    with opened_app() as studio:
        studio.app.state.desk.is_stopping = True
        answer = studio.post("/v1/detect", files={"image": PHOTO})
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "5"
        assert studio.get("/v1/health").json()["status"] == "stopping"
