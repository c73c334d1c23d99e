"""Write TOML, which the standard library only reads."""

import re
from collections.abc import Mapping
from pathlib import Path

from sct.errors import InputError, format_value

TomlValue = str | int | float | bool
"""Supported values: no lists, dates or None."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED_CHARACTERS = re.compile(r'[\x00-\x1f\x7f"\\]')
_INT64_LIMIT = 2**63


def dump_toml(content: Mapping[str, TomlValue | Mapping[str, TomlValue]]) -> str:
    r"""Format values and one level of tables, so that ``tomllib`` reads the same.

    Values come before tables, or they would belong to the last one.

    >>> print(dump_toml({"captioner": {"mode": "paper", "hidden_size": 1000}, "version": 1}), end="")
    version = 1
    <BLANKLINE>
    [captioner]
    mode = "paper"
    hidden_size = 1000
    """
    plain = [_line(key, value) for key, value in content.items() if not isinstance(value, Mapping)]
    tables = [
        f"\n[{_key(name)}]\n" + "".join(_line(key, value) for key, value in table.items())
        for name, table in content.items()
        if isinstance(table, Mapping)
    ]
    return "".join(plain + tables)


def check_toml_values(table: Mapping[str, object], path: Path) -> None:
    """Raise unless a table that was read from ``path`` holds values that ``dump_toml`` writes."""
    for name, value in table.items():
        if not isinstance(value, str | int | float):
            raise InputError(
                f"{path}: got {format_value(name)} = {format_value(value)}, expected text, a number, true or false"
            )


def _line(key: str, value: TomlValue) -> str:
    return f"{_key(key)} = {_value(value)}\n"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quote(key)


def _value(value: TomlValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -_INT64_LIMIT <= value < _INT64_LIMIT:
            raise InputError(f"got {format_value(value)}, expected an integer of 64 bits for TOML")
        return str(int(value))
    if isinstance(value, float):
        # repr(float()), as that of a NumPy number is not a number.
        return repr(float(value))
    return _quote(value)


def _quote(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"got {text!r}, expected valid Unicode for TOML") from error
    return '"' + _ESCAPED_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + '"'
