"""Settings as TOML text; the standard library only reads it."""

import re
from collections.abc import Mapping

from sct.errors import InputError

TomlValue = str | int | float | bool
"""What a setting may be: no lists, dates or nothing."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MUST_BE_ESCAPED = re.compile(r'[\x00-\x1f\x7f"\\]')
_LARGEST_WHOLE_NUMBER = 2**63


def toml_text(content: Mapping[str, TomlValue | Mapping[str, TomlValue]]) -> str:
    r"""Write settings and one level of tables so that ``tomllib`` reads the same back.

    Plain settings go before all tables, as TOML would take them for part of the last one.

    >>> print(toml_text({"captioner": {"mode": "paper", "hidden_size": 1000}, "version": 1}), end="")
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


def _line(key: str, value: TomlValue) -> str:
    return f"{_key(key)} = {_value(value)}\n"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _quoted(key)


def _value(value: TomlValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -_LARGEST_WHOLE_NUMBER <= value < _LARGEST_WHOLE_NUMBER:
            raise InputError(f"the setting {value} does not fit TOML: expected a whole number of 64 bits")
        return str(int(value))
    if isinstance(value, float):
        # Not repr of the value itself: that of a NumPy number is no number.
        return repr(float(value))
    return _quoted(value)


def _quoted(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"the setting {text!r} does not fit TOML: expected text that is valid Unicode") from error
    return '"' + _MUST_BE_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + '"'
