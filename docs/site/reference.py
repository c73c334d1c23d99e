"""Reference pages that are generated: the command line from its options, HTTP from the OpenAPI document."""

import inspect
from typing import Any

import typer

import sct
from sct.cli.main import VERBS, _app
from sct.serving.app import make_app


def cli_page() -> str:
    """Markdown of all verbs with their arguments and options."""
    lines = [
        "# Command line",
        "",
        "Generated from the options that `sct` itself declares; `sct VERB --help` prints the same.",
        "",
    ]
    group: Any = typer.main.get_command(_app([]))
    context = group.make_context("sct", [], resilient_parsing=True)
    lines += _parameter_table(group, context)
    for verb in VERBS:
        command = group.commands[verb]
        with command.make_context(f"sct {verb}", [], resilient_parsing=True, parent=context) as inner:
            usage = " ".join(command.collect_usage_pieces(inner))
            lines += ["", f"## sct {verb}", "", "```", f"sct {verb} {usage}", "```", ""]
            lines += [_join(inspect.cleandoc(command.help or "")), "", *_parameter_table(command, inner)]
    return "\n".join(lines) + "\n"


def _join(text: str) -> str:
    """Paragraphs without line breaks; angle brackets are no tags."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).replace("<", "&lt;")


def _parameter_table(command: Any, context: Any) -> list[str]:
    """Rows as ``--help`` prints them; in code, a pipe would end the cell."""
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    rows = [f"| `{names.replace('|', '/')}` | {_join(text).replace('|', '/')} |" for names, text in records]
    return ["| option | meaning |", "| --- | --- |", *rows]


def http_page() -> str:
    """Markdown of all routes and schemas."""
    app = make_app(sct.load())
    try:
        from starlette.testclient import TestClient  # noqa: PLC0415  of the extra [docs]

        document = TestClient(app, base_url="http://127.0.0.1:8765").get("/openapi.json").json()
    finally:
        app.state.service.stop()
    lines = [
        "# HTTP routes",
        "",
        "Generated from the OpenAPI document that `sct serve` answers at `/openapi.json`. What it does not say, as",
        "time-outs and how images are cached, is in [HTTP, explained](../http.md).",
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            lines += [
                "",
                f"## {method.upper()} {path}",
                "",
                _join(operation.get("description", operation.get("summary", ""))),
                "",
            ]
            for kind, body in operation.get("requestBody", {}).get("content", {}).items():
                lines += [f"Body, `{kind}`: {_schema_name(body['schema'])}", ""]
            lines += ["| status | meaning | content |", "| --- | --- | --- |"]
            for status, response in sorted(operation["responses"].items()):
                kinds = [
                    f"{_schema_name(content.get('schema', {}))}" for content in response.get("content", {}).values()
                ]
                lines.append(f"| {status} | {_join(response['description'])} | {', '.join(filter(None, kinds))} |")
    lines += ["", "## Schemas"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += ["", f"### {name}", ""]
        if text := schema.get("description"):
            lines += [_join(text), ""]
        if not schema.get("properties"):
            continue
        lines += ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
        required = schema.get("required", [])
        for field, value in schema["properties"].items():
            default = "required" if field in required else f"`{value['default']}`" if "default" in value else ""
            lines.append(f"| `{field}` | {_schema_name(value)} | {default} | {_join(value.get('description', ''))} |")
    return "\n".join(lines) + "\n"


def _schema_name(schema: dict[str, Any]) -> str:
    """Type of a value, with links to named schemas."""
    if reference := schema.get("$ref"):
        name = reference.rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if parts := schema.get("anyOf", schema.get("oneOf")):
        return " or ".join(_schema_name(part) for part in parts)
    if schema.get("type") == "array":
        return f"list of {_schema_name(schema.get('items', {}))}" if schema.get("items") else "list"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    limits = [f"{sign} {schema[key]}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return " ".join([str(schema.get("type", "")), *limits]).strip()
