"""Strict configuration: frozen dataclasses read from TOML and ``key=value`` overrides.

A config holds strings, numbers, booleans and choices; a recipe, which describes one training run, may also hold
configs, which are the tables of its file. Unknown keys fail with the nearest known one. A field whose key is not a
valid identifier ("from") gives it in the field's metadata.
"""

import difflib
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

from sct.errors import InputError, format_value
from sct.limits import MAX_SETTING_LENGTH
from sct.storage.reading import read_toml
from sct.storage.toml import TomlValue, dump_toml

TomlContent = dict[str, Any]
"""A parsed TOML file, not checked yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Base class of recipes and of their tables."""


ConfigT = TypeVar("ConfigT", bound=Config)
RecipeT = TypeVar("RecipeT", bound="Recipe")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe(Config):
    """One training run."""

    MAY_CHANGE_ON_RESUME: ClassVar[frozenset[str]] = frozenset({"out"})
    """Keys, or tables ("device."), that say how long or where a run computes, not what it learns."""
    RESUMABLE: ClassVar[bool] = True
    """Whether the trainer saves checkpoints."""

    data: str
    """Dataset folder, written by ``sct prepare``."""
    out: str
    """Run directory; default: ``runs/`` and the path of the recipe file below ``recipes/``, without its suffix."""

    def __post_init__(self) -> None:
        """Check the values."""
        check_types(self)
        for name in ("data", "out"):
            if not getattr(self, name):
                raise InputError(f"{name} is empty, expected a path: give {name}=DIR")

    @classmethod
    def load(cls: type[RecipeT], path: Path, overrides: Sequence[str] = ()) -> RecipeT:
        """Read a recipe file and apply ``key=value`` overrides; unknown keys and conflicting values fail."""
        return cls.from_toml(read_toml(path, "a recipe"), path, overrides)

    @classmethod
    def from_toml(cls: type[RecipeT], content: TomlContent, path: Path, overrides: Sequence[str] = ()) -> RecipeT:
        """Build the recipe from the parsed content of the file at ``path``."""
        try:
            content = apply_overrides(content, overrides, cls)
            content.setdefault("out", default_out(path))
            if "data" not in content:
                raise InputError("data is missing: name a dataset folder written by sct prepare, data=DIR")
            return build_config(cls, content)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @classmethod
    def may_change_on_resume(cls, key: str) -> bool:
        """Whether a resumed run may use another value for this key."""
        return key in cls.MAY_CHANGE_ON_RESUME or f"{key.partition('.')[0]}." in cls.MAY_CHANGE_ON_RESUME

    def fingerprint(self) -> str:
        """Hash of the settings that must not change on resume.

        Only non-default values enter it, so that runs keep their fingerprint when a release adds a setting.
        """
        defaults = flatten_config(type(self)(data=".", out="."))
        non_default = {
            key: value
            for key, value in flatten_config(self).items()
            if not self.may_change_on_resume(key) and value != defaults[key]
        }
        return hashlib.sha256(json.dumps(non_default, sort_keys=True).encode("utf-8")).hexdigest()[:16]

    def to_toml(self) -> str:
        """All settings as TOML, defaults included, since a later release may change those."""
        return dump_toml(config_tree(self))


def default_out(path: Path) -> str:
    """Run directory of a recipe file that names none.

    >>> default_out(Path("recipes/flickr8k/cider.toml")), default_out(Path("mine.toml"))
    ('runs/flickr8k/cider', 'runs/mine')
    """
    parts = path.with_suffix("").parts
    below = parts[len(parts) - parts[::-1].index("recipes") :] if "recipes" in parts else parts[-1:]
    return "/".join(("runs", *below))


def apply_overrides(content: TomlContent, overrides: Sequence[str], kind: type[Config]) -> TomlContent:
    """Replace values by ``key=value`` overrides, of which the last one wins.

    The type of the key's field decides how a value is parsed: ``out=12`` is a string, ``seed=12`` a number.
    """
    changed: TomlContent = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    types = _field_types(kind)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise InputError(f"got {format_value(override)}, expected key=value, such as {next(iter(types))}=...")
        if key not in types:
            raise InputError(_unknown_key(key, kind))
        *table, name = key.split(".")
        target = changed.setdefault(table[0], {}) if table else changed
        if not isinstance(target, dict):
            raise InputError(f"{table[0]} is {format_value(target)}: expected a table")
        target[name] = _parse_value(value, types[key], key)
    return changed


def build_config(kind: type[ConfigT], content: Mapping[str, Any]) -> ConfigT:
    """Build a config from parsed TOML; an unknown key fails with the nearest known one."""
    return _build(kind, content, kind, "")


def check_types(config: Config, table: str = "") -> None:
    """Raise if a value does not have its field's type; for use in ``__post_init__``.

    A bool is not a number here, and numbers must be finite.
    """
    for field in fields(config):
        if _is_table(field.type):
            continue
        value = getattr(config, field.name)
        if not _has_type(value, field.type):
            raise InputError(_wrong_type(_dotted(table, key_of(field)), value, field.type))


def split_list(value: str) -> tuple[str, ...]:
    """Split a setting that lists names or paths.

    >>> split_list("runs/a, runs/b"), split_list("")
    (('runs/a', 'runs/b'), ())
    """
    return tuple(name.strip() for name in value.split(",")) if value else ()


def check_at_least(key: str, value: float, minimum: int) -> None:
    """Raise if a number is below ``minimum``."""
    if value < minimum:
        raise InputError(f"{key} is {value}: expected {minimum} or more")


def check_positive(key: str, value: float) -> None:
    """Raise if a number is 0 or less."""
    if value <= 0:
        raise InputError(f"{key} is {value}: expected a number above 0")


def key_of(field: Field[Any]) -> str:
    """Key of a field in files and on the command line."""
    return str(field.metadata.get("key", field.name))


def config_tree(config: Config) -> dict[str, TomlValue | Mapping[str, TomlValue]]:
    """All settings by key, with nested tables."""
    tree: dict[str, TomlValue | Mapping[str, TomlValue]] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if _is_table(field.type):
            tree[key_of(field)] = config_tree(value)  # type: ignore[assignment]  # tables are not nested further
        else:
            tree[key_of(field)] = float(value) if field.type is float else value
    return tree


def flatten_config(config: Config) -> dict[str, TomlValue]:
    """All settings by dotted key, as in ``key=value`` overrides."""
    flat: dict[str, TomlValue] = {}
    for key, value in config_tree(config).items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return flat


def format_override(key: str, value: TomlValue) -> str:
    """Write a setting as a ``key=value`` override.

    >>> format_override("objective.shuffle", True)
    'objective.shuffle=true'
    """
    return f"{key}={str(value).lower() if isinstance(value, bool) else value}"


def _build(kind: type[ConfigT], content: Mapping[str, Any], root: type[Config], table: str) -> ConfigT:
    values: dict[str, Any] = {}
    by_key = {key_of(field): field for field in _fields(kind)}
    for key, value in content.items():
        if key not in by_key:
            raise InputError(_unknown_key(_dotted(table, key), root))
        name: str = by_key[key].name
        expected: Any = by_key[key].type
        if _is_table(expected):
            if not isinstance(value, dict):
                raise InputError(f"{key} is {format_value(value)}: expected a table, [{key}]")
            values[name] = _build(expected, value, root, key)
        elif not _has_type(value, expected):
            raise InputError(_wrong_type(_dotted(table, key), value, expected))
        else:
            values[name] = float(value) if expected is float else value
    return kind(**values)


def _fields(kind: Any) -> tuple[Field[Any], ...]:
    return fields(kind)


def _is_table(kind: Any) -> bool:
    return is_dataclass(kind)


def _dotted(table: str, key: str) -> str:
    return f"{table}.{key}" if table else key


def _field_types(kind: type[Config]) -> dict[str, Any]:
    """Type of every setting, by dotted key."""
    types: dict[str, Any] = {}
    for field in _fields(kind):
        if _is_table(field.type):
            types |= {_dotted(key_of(field), key_of(inner)): inner.type for inner in _fields(field.type)}
        else:
            types[key_of(field)] = field.type
    return types


def _unknown_key(key: str, kind: type[Config]) -> str:
    known = list(_field_types(kind))
    tables = [key_of(field) for field in _fields(kind) if _is_table(field.type)]
    if key in tables:
        inner = next(name for name in known if name.startswith(f"{key}."))
        return f"{key} is a table: name one of its settings, such as {inner}=..."
    # The same name in another table is a better suggestion than a similar spelling.
    same_name = [name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2]]
    nearest = same_name or difflib.get_close_matches(key[:MAX_SETTING_LENGTH], [*known, *tables], n=1, cutoff=0.5)
    suggestion = f"did you mean {' or '.join(nearest)}?" if nearest else f"expected one of {', '.join(known)}"
    return f"unknown setting {format_value(key)}: {suggestion}"


def _has_type(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is bool or isinstance(value, bool):
        return isinstance(value, bool) and kind is bool
    if isinstance(value, int):
        # TOML integers have 64 bits, which Python's parser does not enforce.
        return kind in (int, float) and -(2**63) <= value < 2**63
    if isinstance(value, float):
        return kind is float and math.isfinite(value)
    return isinstance(value, str) and kind is str and len(value) <= MAX_SETTING_LENGTH and "\0" not in value


def _wrong_type(key: str, value: object, kind: Any) -> str:
    return f"{key} is {format_value(value)}: expected {_describe_type(kind)}"


def _describe_type(kind: Any) -> str:
    if get_origin(kind) is Literal:
        *others, last = (repr(choice) for choice in get_args(kind))
        return f"{', '.join(others)} or {last}" if others else last
    if kind is str:
        return f"a string of at most {MAX_SETTING_LENGTH:,} characters"
    return {int: "an integer", float: "a number", bool: "true or false"}[kind]


def _parse_value(text: str, kind: Any, key: str) -> TomlValue:
    value: TomlValue = text
    try:
        if kind is bool:
            value = {"true": True, "false": False}[text]
        elif kind in (int, float):
            value = kind(text)
    except (ValueError, KeyError):
        raise InputError(_wrong_type(key, text, kind)) from None
    return value
