"""The server against its own description: whatever is sent, it answers as it says that it does.

Schemathesis makes requests that fit the description and requests that do not; they are the same in every run, and a few
hundred in all.
"""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, openapi
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from sct.serving.app import make_app
from sct.serving.config import ServerSettings
from sct.serving.multipart import image_id
from tests.serving.studio_model import BLUE, InProcess, encoded, photo, tiny_captioner

load_all_checks()
KNOWN = photo(width=400, height=400)
IMAGES = [KNOWN, photo(BLUE), photo()[:-30], encoded(np.zeros((3, 5, 3), np.uint8), "jpeg")]
openapi.format("binary", st.sampled_from(IMAGES) | st.binary(max_size=50))


@pytest.fixture(scope="module")
def app():
    made = make_app(tiny_captioner(), ServerSettings(patience=0.0))
    yield made
    made.state.desk.stop()


def without_lifespan(app):
    """Each client of schemathesis would end the application behind it."""

    async def asked(scope, receive, send):
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for what in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{what}.complete"})

    return asked


def fitted(request):
    """A request with an image that is known, boxes that lie in it, and nothing that clashes; a random one has none."""
    if isinstance(request.get("request"), dict):
        return {**request, "request": fitted(request["request"])}
    fit = {name: value for name, value in request.items() if name not in ("classes", "n_best", "cover")}
    if "image" in fit and not isinstance(fit["image"], bytes):
        fit["image"] = image_id(KNOWN)
    if fit.get("control"):
        fit["control"] = [
            [[abs(x1) % 99, abs(y1) % 99, 100 + abs(x2) % 99, 100 + abs(y2) % 99] for x1, y1, x2, y2 in boxes]
            for boxes in fit["control"]
        ]
    return fit


@pytest.mark.parametrize("path", ["/v1/caption", "/v1/ways", "/v1/detect", "/v1/score", "/v1/health", "/v1/metrics"])
def test_it_answers_what_is_described(app, path):
    def check(case, number):
        if isinstance(case.body, dict) and number % 2:
            case.body = fitted(case.body)
        # Images of the description are any bytes, and boxes any numbers: not all that fit it can be answered. Nor
        # does the check of the opposite know an image that was put in the place of another.
        return case.call_and_validate(excluded_checks=[positive_data_acceptance, negative_data_rejection])

    statuses = all_statuses(app, path, GenerationMode.POSITIVE, check)
    assert 200 in statuses


@pytest.mark.parametrize("path", ["/v1/caption", "/v1/ways", "/v1/detect", "/v1/score"])
def test_it_refuses_what_is_not_described(app, path):
    statuses = all_statuses(app, path, GenerationMode.NEGATIVE, lambda case, _: case.call_and_validate())
    assert set(statuses) <= {400, 404, 413, 415, 422}


def all_statuses(app, path, mode, check):
    """The statuses of what was made up for a route."""
    described = openapi.from_asgi("/v1/openapi.json", without_lifespan(app))
    [method] = described[path]
    statuses = []

    @settings(
        max_examples=25,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(described[path][method].as_strategy(generation_mode=mode))
    def ask(case):
        statuses.append(check(case, len(statuses)).status_code)

    assert InProcess(app).send("/v1/detect", KNOWN).status_code == 200
    ask()
    print(path, mode.value, Counter(statuses))
    return statuses
