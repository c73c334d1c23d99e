"""Authentication, origin checks and security headers."""

import pytest

from tests.serving.helpers import open_app, photo

PHOTO = photo()
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/health"), ("GET", "/nowhere"), ("PUT", "/v1/caption"), ("POST", "/v1/detect"), ("GET", "/")],
    ids=["200", "404", "405", "415", "page"],
)
def test_security_headers(method, path):
    with open_app() as client:
        headers = client.request(method, path).headers
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
        pytest.param({}, 401, id="missing"),
        pytest.param({"authorization": "Bearer wrong"}, 401, id="wrong"),
        pytest.param({"authorization": "Bearer"}, 401, id="empty"),
        pytest.param({"authorization": "Basic secret"}, 401, id="another scheme"),
        pytest.param({"authorization": "Bearer s\u00e9cret"}, 401, id="not ASCII"),
        pytest.param({"authorization": "Bearer secret"}, 200, id="correct"),
        pytest.param({"authorization": "bearer secret"}, 200, id="lower-case scheme"),
    ],
)
def test_token(headers, status):
    with open_app(token="secret") as client:
        encoded = {name: value.encode("latin-1") for name, value in headers.items()}
        response = client.post("/v1/detect", files={"image": PHOTO}, headers=encoded)
        assert response.status_code == status
        if status == 401:
            assert response.headers["www-authenticate"] == "Bearer"
            assert "Authorization: Bearer" in response.json()["error"]
        assert client.get("/v1/metrics", headers=encoded).status_code == status
        for path in ("/v1/health", "/v1/openapi.json", "/openapi.json", "/docs"):
            assert client.get(path).status_code == 200, "nothing secret"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 200, id="no origin"),
        pytest.param({"origin": "http://localhost"}, 200, id="same origin"),
        pytest.param({"origin": "http://localhost:9"}, 403, id="another port"),
        pytest.param({"origin": "https://example.org"}, 403, id="another host"),
        pytest.param({"origin": "null"}, 403, id="null origin"),
        pytest.param({"origin": "http://[bad"}, 403, id="malformed origin"),
        pytest.param({"host": "example.org"}, 403, id="DNS rebinding"),
        pytest.param({"host": "example.org", "origin": "http://example.org"}, 403, id="DNS rebinding, same origin"),
        pytest.param({"host": "127.0.0.1:8765", "origin": "http://127.0.0.1:8765"}, 200, id="IPv4"),
        pytest.param({"host": "[::1]:8765"}, 200, id="IPv6"),
        pytest.param({"host": "["}, 403, id="malformed host"),
    ],
)
def test_host_and_origin(headers, status):
    with open_app(hosts=LOOPBACK) as client:
        assert client.get("/v1/health", headers=headers).status_code == status
        assert client.post("/v1/detect", files={"image": PHOTO}, headers=headers).status_code == status


def test_any_host_is_allowed_without_a_host_list():
    with open_app() as client:
        assert client.get("/v1/health", headers={"host": "client.example.org"}).status_code == 200
        response = client.get(
            "/v1/health", headers={"host": "client.example.org", "origin": "http://other.example.org"}
        )
        assert response.status_code == 403


def test_preflight_is_rejected():
    with open_app() as client:
        headers = {"origin": "http://example.org", "access-control-request-method": "POST"}
        response = client.request("OPTIONS", "/v1/caption", headers=headers)
        assert response.status_code == 403
        assert "access-control-allow-origin" not in response.headers


def test_stopping_server_rejects_requests():
    with open_app() as client:
        client.app.state.service.is_stopping = True
        response = client.post("/v1/detect", files={"image": PHOTO})
        assert response.status_code == 503
        assert response.headers["retry-after"] == "5"
        assert client.get("/v1/health").json()["status"] == "stopping"
