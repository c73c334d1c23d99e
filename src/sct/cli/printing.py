"""What commands print: one line each, valid in every encoding, whatever names and captions contain."""

import json
import sys
from typing import Any

from sct.cli.verbosity import is_quiet
from sct.errors import escape_controls


def print_line(text: object = "") -> None:
    """Print a line of text on stdout."""
    print(escape_controls(text))


def print_json(content: Any) -> None:
    """Print a JSON value on one line of stdout."""
    print(format_json(content, sys.stdout.encoding or "utf-8"))


def print_note(message: object) -> None:
    """Print a message that ``--quiet`` leaves out, such as a summary."""
    if not is_quiet():
        print_message(message)


def print_message(message: object) -> None:
    """Print an error or another message on one line of stderr."""
    print(f"sct: {escape_controls(' '.join(str(message).split()))}", file=sys.stderr, flush=True)


def format_json(content: Any, encoding: str = "utf-8") -> str:
    r"""Format a JSON value on one line that ``encoding`` can encode.

    A file name that is not UTF-8 has lone surrogates, which Python reads back as the same name.

    >>> format_json({"image": "café.jpg"}), format_json({"image": "caf\udce9.jpg"})
    ('{"image": "café.jpg"}', '{"image": "caf\\udce9.jpg"}')
    """
    text = escape_controls(json.dumps(content, ensure_ascii=False))
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(content)
    return text
