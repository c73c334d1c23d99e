"""How the bodies of requests are described in OpenAPI."""

from typing import Any

from sct.studio.server.messages import (
    CaptionMessage,
    DetectMessage,
    Message,
    PictureMessage,
    ScoreMessage,
    WaysMessage,
)

_TAKEN: dict[str, type[Message]] = {
    "/v1/caption": CaptionMessage,
    "/v1/ways": WaysMessage,
    "/v1/detect": DetectMessage,
    "/v1/score": ScoreMessage,
}
_PLACE = "#/components/schemas/{model}"


def describe_bodies(described: dict[str, Any]) -> dict[str, Any]:
    """Put what each route takes into a description of the routes."""
    schemas = described["components"]["schemas"]
    for path, kind in _TAKEN.items():
        schema = kind.model_json_schema(ref_template=_PLACE)
        schemas.update(schema.pop("$defs", {}))
        schemas[kind.__name__] = schema
        described["paths"][path]["post"]["requestBody"] = {"required": True, "content": _content(kind, schema)}
    described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    described["security"] = [{"token": []}, {}]
    return described


def _content(kind: type[Message], schema: dict[str, Any]) -> dict[str, Any]:
    message = {"$ref": _PLACE.format(model=kind.__name__)}
    [example] = schema["examples"]
    content: dict[str, Any] = {"application/json": {"schema": message, "example": example}}
    if issubclass(kind, PictureMessage):
        named = {"type": "object", "required": ["picture"], "properties": {"picture": {"type": "string"}}}
        content["application/json"]["schema"] = {"allOf": [message, named]}
        alone = {name: value for name, value in example.items() if name != "picture"}
        content["multipart/form-data"] = {
            "schema": {
                "type": "object",
                "properties": {"picture": {"type": "string", "format": "binary"}, "request": message},
                "required": ["picture", "request"] if "required" in schema else ["picture"],
                "additionalProperties": False,
            },
            "encoding": {"request": {"contentType": "application/json"}},
            "example": {"request": alone},
        }
    return content
