"""The OpenAPI document: what FastAPI knows of the routes, and their request bodies, headers and token."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from sct.serving.middleware import PUBLIC_ROUTES
from sct.serving.responses import RESPONSE_EXAMPLES, ErrorResponse
from sct.serving.schemas import REQUESTS, ImageId, ImageParams, Params

_REF = "#/components/schemas/{model}"
_HEADERS = {
    401: {"WWW-Authenticate": {"description": "Bearer.", "schema": {"const": "Bearer"}}},
    429: {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}},
}
_IMAGE_ID = TypeAdapter(ImageId).json_schema()
_NOT_IN_SCHEMA = (
    "Also refused with 422, beyond what the schema can tell: bytes that are no image, boxes that are inverted or leave "
    "the image, classes in another shape than control, cover with fewer words than region sets, options that no "
    "caption meets, and unordered region sets if the model has no sorter (see /v1/health)."
)


IMAGE_ID_HEADER = "X-Image-Id"
"""Header with the id of an image: proxies can route by that of requests, and responses have it."""


def describe_responses(errors: dict[int, str], example_of: str | None = None) -> dict[int | str, dict[str, Any]]:
    """Describe the error responses of a route, and an example of its response."""
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorResponse, "description": text, "headers": _HEADERS.get(status, {})}
        for status, text in sorted(errors.items())
    }
    if example_of is not None:
        example = RESPONSE_EXAMPLES[example_of]
        responses[200] = {"content": {"application/json": {"example": example}}}
        if "image" in example:
            responses[200]["headers"] = {IMAGE_ID_HEADER: {"description": "Id of the image.", "schema": _IMAGE_ID}}
    return responses


def build_document(app: FastAPI, *, needs_token: bool) -> dict[str, Any]:
    """Return the document; the routes read raw bodies, which FastAPI does not know."""
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    schemas = document["components"]["schemas"]
    for path, params in REQUESTS.items():
        schema = params.model_json_schema(ref_template=_REF)
        schemas.update(schema.pop("$defs", {}))
        operation = document["paths"][path]["post"]
        operation["requestBody"] = {"required": True, "content": _content(params, schema, schemas)}
        if issubclass(params, ImageParams):
            operation["description"] += f" {_NOT_IN_SCHEMA}"
    if needs_token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in PUBLIC_ROUTES:
                operation["security"] = []
            if path in PUBLIC_ROUTES or not needs_token:
                operation["responses"].pop("401", None)
    return document


def _content(params: type[Params], schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the bodies of a route and add their schemas: JSON with an image id, or a form with the image's bytes."""
    name = params.__name__
    [example] = schema.pop("examples")
    schemas[name] = schema
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": _REF.format(model=name)}, "example": example}}
    if issubclass(params, ImageParams):
        properties = {**schema["properties"]}
        image = properties.pop("image")
        required = schema.get("required", [])
        schemas[f"{name}WithBytes"] = {**schema, "title": f"{name}WithBytes", "properties": properties}
        by_id = next(each for each in image["anyOf"] if each["type"] == "string")
        properties = {"image": {**by_id, "description": image["description"]}, **properties}
        schemas[name] = {**schema, "properties": properties, "required": ["image", *required]}
        content["multipart/form-data"] = {
            "schema": {
                "type": "object",
                "properties": {
                    "image": {"type": "string", "format": "binary", "contentMediaType": "image/*"},
                    "request": {"$ref": _REF.format(model=f"{name}WithBytes")},
                },
                "required": ["image", "request"] if required else ["image"],
                "additionalProperties": False,
            },
            "encoding": {"image": {"contentType": "image/*"}, "request": {"contentType": "application/json"}},
            "example": {"request": {field: value for field, value in example.items() if field != "image"}},
        }
    return content
