"""Schemathesis: the OpenAPI document describes what the server accepts, refuses and answers; all checks, fixed seed.

More cases: ``SCT_SCHEMATHESIS_EXAMPLES=500 pytest tests/serving/test_openapi.py -s``.
"""

import os
from collections import Counter
from dataclasses import replace

import pytest
import schemathesis
from schemathesis import GenerationMode, hooks, openapi
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.engine import Status, events, from_schema
from schemathesis.transport.serialization import Binary

from sct.serving.app import make_app
from sct.serving.config import ServerConfig
from sct.serving.multipart import image_id
from tests.factories import make_captioner
from tests.serving.helpers import AppClient, photo

NUM_EXAMPLES = int(os.environ.get("SCT_SCHEMATHESIS_EXAMPLES", "15"))
"""Generated requests per route, besides those that cover each keyword of the schema."""
IMAGE = photo(width=400, height=400)
AUTHORIZATION = {"Authorization": "Bearer secret"}


@pytest.fixture(scope="module")
def app():
    captioner = make_captioner()
    search = captioner.caption_batch

    def search_quickly(requests, options):
        return search(requests, options if options.cover else replace(options, max_length=min(options.max_length, 2)))

    captioner.caption_batch = search_quickly
    app = make_app(captioner, ServerConfig(max_delay=0.0, token="secret"))
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
    """Change a request that conforms to its schema as little as rules beyond JSON Schema demand, in place.

    These are in the descriptions: bytes are an image, boxes lie in it, names have the shape of the boxes, and a caption
    covers all region sets if ten words without repetitions can. Image ids are those of a cached image. The model has
    few words and no nouns, so no names are given and no words asked for.
    """
    if isinstance(request.get("request"), dict):
        make_valid(request["request"])
    for name, value in {"banned_words": [], "required_words": [], "whole_chunks": None, "min_fit": 0}.items():
        if name in request:
            request[name] = value
    if "image" in request:
        request["image"] = Binary(IMAGE) if isinstance(request["image"], bytes | Binary) else image_id(IMAGE)
    if request.get("control"):
        scale = 400 if request.get("relative") else 1
        request["control"] = [
            [
                [side / scale for side in (abs(x1) % 99, abs(y1) % 99, 101 + abs(x2) % 99, 101 + abs(y2) % 99)]
                for x1, y1, x2, y2 in boxes
            ]
            for boxes in request["control"]
        ]
        if request.get("classes"):
            request["classes"] = [[None for _ in boxes] for boxes in request["control"]]
        if request.get("cover"):
            request.update(max_length=20, no_repeat_ngram_size=0)


@pytest.fixture
def valid_requests():
    """Positive cases are made valid before they are sent."""

    @schemathesis.hook
    def before_call(_, case, __):
        if case.meta is not None and case.meta.generation.mode.is_positive and isinstance(case.body, dict):
            make_valid(case.body)
            case.meta.generation.mode = GenerationMode.POSITIVE  # Schemathesis takes a changed body for a negative one

    yield
    hooks.unregister(before_call)


@pytest.mark.usefixtures("valid_requests")
def test_schemathesis(app):
    load_all_checks()
    client = AppClient(app)
    schema = openapi.from_asgi("/openapi.json", without_lifespan(app))
    schema.config.seed = 21
    schema.config.headers = AUTHORIZATION
    schema.config.continue_on_failure = True
    schema.config.generation.update(max_examples=NUM_EXAMPLES, deterministic=True, database="none")

    client.post("/v1/detect", files={"image": IMAGE}, headers=AUTHORIZATION).raise_for_status()
    statuses, checks, problems = Counter(), Counter(), []
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            problems.append(str(event))
        if not isinstance(event, events.ScenarioFinished):
            continue
        recorder = event.recorder
        for interaction in recorder.interactions.values():
            statuses[recorder.label, interaction.response and interaction.response.status_code] += 1
        for case_id, found in recorder.checks.items():
            checks.update(check.name for check in found)
            problems += [
                f"{recorder.label} {check.name} {recorder.cases[case_id].value.body!r:.300} {check.failure_info!r:.500}"
                for check in found
                if check.status is not Status.SUCCESS
            ]
    print(sum(statuses.values()), "requests", dict(statuses), dict(checks))
    assert problems == []
    assert {name for name, status in statuses if status == 200} == {
        "POST /v1/caption", "POST /v1/alternatives", "POST /v1/detect", "POST /v1/score", "GET /v1/health",
        "GET /v1/metrics",
    }  # fmt: skip
    assert set(checks) >= {check.__name__ for check in CHECKS.get_all()} - {"max_response_time"}
