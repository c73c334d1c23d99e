"""Responses conform to OpenAPI for valid and invalid requests (Schemathesis), a few hundred deterministic examples."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, openapi
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from sct.serving.app import make_app
from sct.serving.config import ServerConfig
from sct.serving.multipart import image_id
from tests.color_vision import BLUE
from tests.factories import make_captioner
from tests.serving.helpers import AppClient, encode_file, photo

load_all_checks()
POST_ROUTES = ("/v1/caption", "/v1/alternatives", "/v1/detect", "/v1/score")
CACHED = photo(width=400, height=400)
IMAGES = [CACHED, photo(BLUE), photo()[:-30], encode_file(np.zeros((3, 5, 3), np.uint8), "jpeg")]
openapi.format("binary", st.sampled_from(IMAGES) | st.binary(max_size=50))


@pytest.fixture(scope="module")
def app():
    app = make_app(make_captioner(), ServerConfig(max_delay=0.0))
    yield app
    app.state.service.stop()


def without_lifespan(app):
    """Ignore lifespan events: each Schemathesis client would stop the application."""

    async def handle(scope, receive, send):
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})

    return handle


def make_valid(request):
    """Replace the image by a cached one, move the boxes into it and drop fields that may conflict."""
    if isinstance(request.get("request"), dict):
        return {**request, "request": make_valid(request["request"])}
    valid = {name: value for name, value in request.items() if name not in ("classes", "n_best", "cover")}
    if "image" in valid and not isinstance(valid["image"], bytes):
        valid["image"] = image_id(CACHED)
    if valid.get("control"):
        valid["control"] = [
            [[abs(x1) % 99, abs(y1) % 99, 100 + abs(x2) % 99, 100 + abs(y2) % 99] for x1, y1, x2, y2 in boxes]
            for boxes in valid["control"]
        ]
    return valid


@pytest.mark.parametrize(
    "path", ["/v1/caption", "/v1/alternatives", "/v1/detect", "/v1/score", "/v1/health", "/v1/metrics"]
)
def test_responses_conform_to_openapi(app, path):
    def check(case, number):
        if isinstance(case.body, dict) and number % 2:
            case.body = make_valid(case.body)
        # OpenAPI allows any bytes as an image and any numbers as a box, so not every conforming request is valid; nor
        # does the negative check know about replaced images.
        return case.call_and_validate(excluded_checks=[positive_data_acceptance, negative_data_rejection])

    statuses = collect_statuses(app, path, GenerationMode.POSITIVE, check)
    assert 200 in statuses


@pytest.mark.parametrize("path", POST_ROUTES)
def test_nonconforming_requests_are_rejected(app, path):
    statuses = collect_statuses(app, path, GenerationMode.NEGATIVE, lambda case, _: case.call_and_validate())
    assert set(statuses) <= {400, 404, 413, 415, 422}


def collect_statuses(app, path, mode, check):
    """Status codes of generated requests to a route."""
    schema = openapi.from_asgi("/v1/openapi.json", without_lifespan(app))
    [method] = schema[path]
    statuses = []

    @settings(
        max_examples=25,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(schema[path][method].as_strategy(generation_mode=mode))
    def send(case):
        statuses.append(check(case, len(statuses)).status_code)

    assert AppClient(app).upload("/v1/detect", CACHED).status_code == 200
    send()
    print(path, mode.value, Counter(statuses))
    return statuses
