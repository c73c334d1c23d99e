"""Settings as frozen records: read strictly from TOML and ``key=value`` words, written back so that they load the same.

A settings record is a frozen dataclass of texts, numbers, truths and choices, and at the top also of
further such records, which are the tables of the file. A field whose name is no good key ("from" is a word of Python)
says its key in its metadata.
"""

import difflib
import hashlib
import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from sct.errors import InputError
from sct.storage.toml import TomlValue, toml_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What all records of settings derive from."""


Record = TypeVar("Record", bound=Settings)
Content = dict[str, Any]
"""What a TOML file holds, not checked yet."""


def key_of(field: Field[Any]) -> str:
    """What a field is called in files and on the command line."""
    return str(field.metadata.get("key", field.name))


def read_settings_file(path: Path) -> Content:
    """Read TOML as it is; whether its keys are known is for ``build_settings`` to say."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} does not exist: name a file of settings") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: name a file of settings") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML ({error}): mend that line") from error


def apply_overrides(content: Content, overrides: Sequence[str], kind: type[Settings]) -> Content:
    """Put ``key=value`` words over what a file says; a later one wins over an earlier one.

    The key's field decides how the value is read, so ``out=12`` is a text and ``seed=12`` a number.
    """
    changed: Content = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    kinds = _kinds(kind)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise InputError(f"{override!r} sets nothing: expected key=value, such as {next(iter(kinds))}=...")
        if key not in kinds:
            raise InputError(_unknown(key, kind))
        *table, name = key.split(".")
        inside = changed.setdefault(table[0], {}) if table else changed
        if not isinstance(inside, dict):
            raise InputError(f"{table[0]} is {inside!r}: expected a table")
        inside[name] = _parsed(value, kinds[key], key)
    return changed


def build_settings(kind: type[Record], content: Mapping[str, Any]) -> Record:
    """Make the record of what was read; an unknown key fails and names the nearest known one."""
    return _build(kind, content, kind, "")


def load_run_settings(kind: type[Record], path: Path, overrides: Sequence[str]) -> Record:
    """Read the file of a run's settings, with ``key=value`` words over it; every run has ``data`` and ``out``."""
    content = read_settings_file(path)
    try:
        content = apply_overrides(content, overrides, kind)
        content.setdefault("out", f"runs/{path.stem}")
        if "data" not in content:
            raise InputError("data is missing: name a dataset folder made by sct prepare, data=DIR")
        return build_settings(kind, content)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def check_fields(record: Settings, table: str = "") -> None:
    """Refuse values of another kind than their field's; to be called by a record when it is made.

    Truths do not pass for numbers, though Python lets them, and no number may be infinite or none.
    """
    for field in fields(record):
        if _is_table(field.type):
            continue
        value = getattr(record, field.name)
        if not _fits(value, field.type):
            raise InputError(f"{_dotted(table, key_of(field))} is {value!r}: expected {_wanted(field.type)}")


def check_at_least(key: str, value: float, least: int, because: str = "") -> None:
    """Refuse a number that is too small."""
    if value < least:
        raise InputError(f"{key} is {value}: expected {least} or more{f', for {because}' if because else ''}")


def settings_tree(record: Settings) -> dict[str, TomlValue | Mapping[str, TomlValue]]:
    """Every setting with its key, tables within."""
    tree: dict[str, TomlValue | Mapping[str, TomlValue]] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if _is_table(field.type):
            tree[key_of(field)] = settings_tree(value)  # type: ignore[assignment]  # a table holds no tables
        else:
            tree[key_of(field)] = float(value) if field.type is float else value
    return tree


def flat_settings(record: Settings) -> dict[str, TomlValue]:
    """Every setting by its dotted key, as ``key=value`` words name them."""
    flat: dict[str, TomlValue] = {}
    for key, value in settings_tree(record).items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return flat


def settings_text(record: Settings) -> str:
    """Every setting as TOML, the defaults too, which may be others in a later release."""
    return toml_text(settings_tree(record))


def as_word(value: TomlValue) -> str:
    """A value as one would write it behind ``key=``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _build(kind: type[Record], content: Mapping[str, Any], root: type[Settings], table: str) -> Record:
    found: dict[str, Any] = {}
    by_key = {key_of(field): field for field in _fields(kind)}
    for key, value in content.items():
        if key not in by_key:
            raise InputError(_unknown(_dotted(table, key), root))
        name: str = by_key[key].name
        expected: Any = by_key[key].type
        if _is_table(expected):
            if not isinstance(value, dict):
                raise InputError(f"{key} is {value!r}: expected a table, [{key}]")
            found[name] = _build(expected, value, root, key)
        elif not _fits(value, expected):
            raise InputError(f"{_dotted(table, key)} is {value!r}: expected {_wanted(expected)}")
        else:
            found[name] = float(value) if expected is float else value
    return kind(**found)


def _fields(kind: Any) -> tuple[Field[Any], ...]:
    return fields(kind)


def _is_table(kind: Any) -> bool:
    return is_dataclass(kind)


def _dotted(table: str, key: str) -> str:
    return f"{table}.{key}" if table else key


def _kinds(kind: type[Settings]) -> dict[str, Any]:
    """The type of every setting, by dotted key."""
    kinds: dict[str, Any] = {}
    for field in _fields(kind):
        if _is_table(field.type):
            kinds |= {_dotted(key_of(field), key_of(inner)): inner.type for inner in _fields(field.type)}
        else:
            kinds[key_of(field)] = field.type
    return kinds


def _unknown(key: str, kind: type[Settings]) -> str:
    known = list(_kinds(kind))
    tables = [key_of(field) for field in _fields(kind) if _is_table(field.type)]
    if key in tables:
        inner = next(name for name in known if name.startswith(f"{key}."))
        return f"{key} is a table of settings: name one of them, such as {inner}=..."
    # A name without its table, or with a wrong one, is nearer than any other spelling.
    namesakes = [name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2]]
    nearest = namesakes or difflib.get_close_matches(key, [*known, *tables], n=1, cutoff=0.5)
    meant = f"did you mean {' or '.join(nearest)}?" if nearest else f"expected one of {', '.join(known)}"
    return f"unknown setting {key!r}: {meant}"


def _fits(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is bool or isinstance(value, bool):
        return isinstance(value, bool) and kind is bool
    if isinstance(value, int):
        # TOML ends at 64 bits, though Python's reader of it does not.
        return kind in (int, float) and -(2**63) <= value < 2**63
    if isinstance(value, float):
        return kind is float and math.isfinite(value)
    return isinstance(value, str) and kind is str


def _wanted(kind: Any) -> str:
    if get_origin(kind) is Literal:
        *others, last = (repr(choice) for choice in get_args(kind))
        return f"{', '.join(others)} or {last}"
    return {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}[kind]


def _parsed(text: str, kind: Any, key: str) -> TomlValue:
    value: TomlValue = text
    try:
        if kind is bool:
            value = {"true": True, "false": False}[text]
        elif kind in (int, float):
            value = kind(text)
    except (ValueError, KeyError):
        raise InputError(f"{key} is {text!r}: expected {_wanted(kind)}") from None
    return value


def fingerprint(record: Settings, usual: Settings, may_change: Callable[[str], bool]) -> str:
    """A short name for all settings but those that may change.

    Only what is not as in the ``usual`` settings makes it: one that a later release adds leaves earlier runs their
    names.
    """
    defaults = flat_settings(usual)
    told = {
        key: value for key, value in flat_settings(record).items() if not may_change(key) and value != defaults[key]
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8")).hexdigest()[:16]
