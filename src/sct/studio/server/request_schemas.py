"""How the bodies of requests are described in OpenAPI."""

from collections.abc import Sequence
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from sct.studio.server.messages import Message

PICTURE_BODY, JSON_BODY = "x-picture-body", "x-json-body"
"""Marks of a route that takes a picture with a message, or a message alone; their value is the kind of message."""
_PLACE = "#/components/schemas/{model}"


def describe_bodies(described: dict[str, Any], routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Put the kinds of messages that routes are marked with into their description."""
    schemas = described["components"]["schemas"]
    for route in routes:
        if not isinstance(route, APIRoute) or not route.openapi_extra:
            continue
        operation = described["paths"][route.path]["post"]
        for mark in (PICTURE_BODY, JSON_BODY):
            kind: type[Message] | None = operation.pop(mark, None)
            if kind is not None:
                schema = kind.model_json_schema(ref_template=_PLACE)
                schemas.update(schema.pop("$defs", {}))
                schemas[kind.__name__] = schema
                operation["requestBody"] = {"required": True, "content": _content(kind, schema, mark)}
    described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    described["security"] = [{"token": []}, {}]
    return described


def _content(kind: type[Message], schema: dict[str, Any], mark: str) -> dict[str, Any]:
    message = {"$ref": _PLACE.format(model=kind.__name__)}
    [example] = schema["examples"]
    content: dict[str, Any] = {"application/json": {"schema": message, "example": example}}
    if mark == PICTURE_BODY:
        alone = {name: value for name, value in example.items() if name != "picture"}
        content["multipart/form-data"] = {
            "schema": {
                "type": "object",
                "properties": {"picture": {"type": "string", "format": "binary"}, "request": message},
                "required": ["picture", "request"],
                "additionalProperties": False,
            },
            "encoding": {"request": {"contentType": "application/json"}},
            "example": {"request": alone},
        }
    return content
