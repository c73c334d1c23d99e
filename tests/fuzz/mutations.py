"""Mutations of valid files: of bytes, and of the values inside JSON, TOML, text and safetensors files.

Each function takes a seeded ``Random`` and the content of a file, and returns the content of a damaged one.
"""

import json
import re
import struct
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from random import Random
from typing import Any


class Raw(str):
    """JSON or TOML source that is inserted as it is."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object that may have the same key twice."""


_DEEP = 100_000
HOSTILE_NUMBERS = (
    "0", "-1", "1", "255", "256", "65536", "2147483648", "4294967296", "9223372036854775807", "-9223372036854775809",
    "1e308", "-1e308", "1e-320", "0.5", "-0.0", "1" + "0" * 26, "1" * 400, "1" * 5000,
)  # fmt: skip
HOSTILE_VALUES = (
    None, True, False, "", " ", "a", "5", "\n", "\x00", "../../etc/passwd", "a" * 10_000, "é\u200d😀", "\ud800",
    [], [[]], [None], [0] * 300, ["a"], {}, {"a": 1}, *map(Raw, HOSTILE_NUMBERS),
)  # fmt: skip
_JSON_ONLY = tuple(map(Raw, ("NaN", "Infinity", "-Infinity", "[" * _DEEP, "[" * _DEEP + "]" * _DEEP, '{"a":' * _DEEP)))
_TOML_ONLY = tuple(map(Raw, ("nan", "inf", "-inf", "1979-05-27", "[" * _DEEP, "[" * _DEEP + "]" * _DEEP)))


def mutate_file(random: Random, name: str, content: bytes) -> bytes:
    """Damage a file in a way that suits its suffix; in one case of three only its bytes."""
    mutate = STRUCTURED.get(PurePath(name).suffix)
    if mutate is None or random.random() < 0.3:
        return mutate_bytes(random, content)
    return mutate(random, content)


def mutate_bytes(random: Random, content: bytes) -> bytes:
    """Flip, overwrite, insert, remove, repeat or truncate bytes."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        start = random.randrange(len(content) + 1)
        end = min(len(content), start + random.choice((1, 1, 2, 4, 8, 64, 1000)))
        size = end - start
        kind = random.randrange(8)
        if kind == 0 and size:  # flip a bit
            content = content[:start] + bytes([content[start] ^ (1 << random.randrange(8))]) + content[start + 1 :]
        elif kind == 1:
            content = content[:start] + random.randbytes(size) + content[end:]
        elif kind == 2:
            content = content[:start] + random.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * size + content[end:]
        elif kind == 3:
            content = content[:start] + content[end:]
        elif kind == 4:
            content = content[:start] + content[start:end] * random.choice((2, 3, 50)) + content[end:]
        elif kind == 5:
            content = content[:start]
        elif kind == 6:
            other = random.randrange(len(content) + 1)
            content = content[:start] + content[other : other + size] + content[end:]
        else:
            content = (
                content[:start] + random.choice((b"\n", b" ", b'"', b"\xc3", b"\xed\xa0\x80", b"9")) + content[start:]
            )
    return content


def mutate_value(random: Random, value: Any, hostile: Sequence[Any] = HOSTILE_VALUES + _JSON_ONLY) -> Any:
    """Replace, remove, repeat, rename or swap one or two values inside a parsed document."""
    for _ in range(random.choice((1, 1, 1, 2))):
        places = list(_places(value))
        if not places or random.random() < 0.05:
            return random.choice(hostile)
        value = _replace(random, value, random.choice(places), hostile)
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values inside a value; not inside ``Pairs``."""
    items = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for key, item in items:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _replace(random: Random, value: Any, path: tuple[Any, ...], hostile: Sequence[Any]) -> Any:
    key, *rest = path
    if rest:
        changed = _replace(random, value[key], tuple(rest), hostile)
        return {**value, key: changed} if isinstance(value, dict) else [*value[:key], changed, *value[key + 1 :]]
    change = _replace_in_object if isinstance(value, dict) else _replace_in_list
    return change(random, value, key, hostile)


def _replace_in_object(random: Random, value: dict[str, Any], key: str, hostile: Sequence[Any]) -> Any:
    others = {name: item for name, item in value.items() if name != key}
    kind = random.randrange(8)
    if kind == 0:
        return others
    if kind == 1:
        return Pairs([*value.items(), (key, random.choice(hostile))])
    if kind == 2:
        return {**others, random.choice((key + "x", key.upper(), "", "a\n", "\ud800")): value[key]}
    return {**value, key: _change(random, value[key], hostile)}


def _replace_in_list(random: Random, value: list[Any], index: int, hostile: Sequence[Any]) -> list[Any]:
    kind = random.randrange(8)
    if kind == 2:
        return value[::-1]
    changed = [_change(random, value[index], hostile)]
    if kind == 0:
        changed = []
    elif kind == 1:
        changed = [value[index]] * random.choice((2, 3, 300))
    return [*value[:index], *changed, *value[index + 1 :]]


def _change(random: Random, old: Any, hostile: Sequence[Any]) -> Any:
    """A hostile value, or one near the old one."""
    if random.random() < 0.3:
        if isinstance(old, str):
            position = random.randrange(len(old) + 1)
            inserted = random.choice(("\x00", "\n", " ", "\ud800", "é", ".", "<unk>", "\u2028", "\u3000", "9"))
            return old[:position] + inserted + old[position:]
        if isinstance(old, (int, float)) and not isinstance(old, bool):
            return random.choice((-old, old + 1, old - 1, old * 2**31, float(old), str(old), [old]))
        if isinstance(old, list):
            return random.choice((old * 2, old[:1], {"0": old}, [old], old * 300))
    return random.choice(hostile)


def dump_json(value: Any) -> str:
    """JSON of a value that may contain ``Raw`` and ``Pairs``."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict | Pairs):
        pairs = value.items() if isinstance(value, dict) else value
        return "{" + ", ".join(f"{json.dumps(key)}: {dump_json(item)}" for key, item in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(dump_json, value)) + "]"
    return json.dumps(value)


def mutate_json(random: Random, content: bytes) -> bytes:
    """Damage a value of a JSON file."""
    return dump_json(mutate_value(random, json.loads(content))).encode("utf-8", "surrogatepass")


def mutate_jsonl(random: Random, content: bytes) -> bytes:
    """Damage a value of one line, or remove, repeat or empty it."""
    lines = content.splitlines()
    index = random.randrange(len(lines))
    kind = random.randrange(10)
    if kind == 0:
        del lines[index]
    elif kind == 1:
        lines.insert(index, lines[index])
    elif kind == 2:
        lines[index] = b""
    else:
        lines[index] = mutate_json(random, lines[index])
    return b"\n".join(lines) + b"\n"


def mutate_toml(random: Random, content: bytes) -> bytes:
    """Damage a value of a TOML file."""
    value = mutate_value(random, tomllib.loads(content.decode()), HOSTILE_VALUES + _TOML_ONLY)
    pairs = value.items() if isinstance(value, dict) else value if isinstance(value, Pairs) else [("a", value)]
    return "".join(f"{_toml_key(key)} = {_dump_toml(item)}\n" for key, item in pairs).encode("utf-8", "surrogatepass")


def _dump_toml(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict | Pairs):
        pairs = value.items() if isinstance(value, dict) else value
        return "{" + ", ".join(f"{_toml_key(key)} = {_dump_toml(item)}" for key, item in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_dump_toml, value)) + "]"
    return "''" if value is None else json.dumps(value)


def _toml_key(key: str) -> str:
    return json.dumps(key)


def mutate_text(random: Random, content: bytes) -> bytes:
    """Damage a number or a line of a text or XML file."""
    numbers = list(re.finditer(rb"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", content))
    if numbers and random.random() < 0.5:
        match = random.choice(numbers)
        number = random.choice((*HOSTILE_NUMBERS, "nan", "inf", "", "x", "0x10", "1_0", "٣")).encode()
        return content[: match.start()] + number + content[match.end() :]
    lines = content.split(b"\n")
    index = random.randrange(len(lines))
    hostile = (b"", b" ", b"\xff\xfe", b"\xed\xa0\x80", b"a" * 10_000, b"[" * 1000, b"<a>" * 1000, "\u2028é".encode())
    kind = random.randrange(5)
    if kind == 0:
        del lines[index]
    elif kind == 1:
        lines.insert(index, lines[index])
    elif kind == 2:
        lines[index] += random.choice(hostile)
    elif kind == 3:
        lines[index] = random.choice(hostile)
    else:
        words = lines[index].split(b" ")
        words[random.randrange(len(words))] = random.choice(hostile)
        lines[index] = b" ".join(words)
    return b"\n".join(lines)


_ELEMENT_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "U16": 2, "U32": 4,
    "U64": 8, "BOOL": 1,
}  # fmt: skip
_PATTERNS = (
    bytes(8), b"\xff" * 8, b"\x7f" * 8, struct.pack("<d", float("nan")), struct.pack("<ff", float("inf"), -1.0),
    struct.pack("<ff", float("nan"), 3e38), struct.pack("<q", -1), struct.pack("<ii", 2**31 - 1, 1),
    b"\x00\x7c\x00\xfe" * 2,
)  # fmt: skip


def mutate_safetensors(random: Random, content: bytes) -> bytes:
    """Damage the metadata, a dtype, a shape or values, in a file that is consistent otherwise."""
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    metadata = header.pop("__metadata__", {})
    tensors = {
        name: [entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]] for name, entry in header.items()
    }
    kind = random.randrange(10)
    if kind < 4 and metadata:
        metadata = _mutate_metadata(random, metadata)
    elif kind == 4:
        header = mutate_value(random, {"__metadata__": metadata, **header})
        return _pack(dump_json(header).encode("utf-8", "surrogatepass"), data)
    elif tensors:
        _mutate_tensor(random, tensors)
    return build_safetensors(metadata, tensors)


def build_safetensors(metadata: Any, tensors: dict[str, list[Any]]) -> bytes:
    """Safetensors file of tensors, each given as dtype, shape and bytes."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    return _pack(dump_json(header).encode("utf-8", "surrogatepass"), data)


def _pack(header: bytes, data: bytes) -> bytes:
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data


def _mutate_metadata(random: Random, metadata: dict[str, str]) -> Any:
    """Damage a value; one that is JSON itself is damaged inside, too."""
    key = random.choice(sorted(metadata))
    try:
        inner = json.loads(metadata[key])
    except ValueError:
        return mutate_value(random, metadata)
    if random.random() < 0.2:
        return mutate_value(random, metadata)
    return {**metadata, key: dump_json(mutate_value(random, inner))}


def _mutate_tensor(random: Random, tensors: dict[str, list[Any]]) -> None:
    name = random.choice(sorted(tensors))
    dtype, shape, values = tensors[name]
    kind = random.randrange(8)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[name + "x"] = tensors.pop(name)
    elif kind == 2:  # other numbers in the same bytes
        kinds = [other for other, size in _ELEMENT_BYTES.items() if size == _ELEMENT_BYTES[dtype]]
        tensors[name][0] = random.choice(kinds)
    elif kind == 3:
        tensors[name][1] = random.choice((shape[::-1], [*shape, 1], [1, *shape], [_product(shape)]))
    elif kind == 4:  # fewer or more rows
        row = len(values) // shape[0] if shape and shape[0] else 0
        rows = random.choice((0, 1, shape[0] - 1, shape[0] + 1)) if row else 0
        if row:
            tensors[name][1:] = [rows, *shape[1:]], (values * 2)[: rows * row]
    elif kind == 5:  # another precision
        other = random.choice(sorted(_ELEMENT_BYTES))
        tensors[name][0], tensors[name][2] = other, bytes(_product(shape) * _ELEMENT_BYTES[other])
    elif values:
        element = _ELEMENT_BYTES[dtype]
        start = random.randrange(len(values) // element) * element
        end = random.choice((start + element, start + element, len(values)))
        pattern = (random.choice((*_PATTERNS, random.randbytes(8))) * (len(values) // 8 + 1))[: end - start]
        tensors[name][2] = values[:start] + pattern + values[end:]
        if dtype == "BOOL":
            tensors[name][2] = bytes(value & 1 for value in tensors[name][2])


def _product(shape: Sequence[int]) -> int:
    total = 1
    for side in shape:
        total *= side
    return total


STRUCTURED: dict[str, Callable[[Random, bytes], bytes]] = {
    ".json": mutate_json,
    ".jsonl": mutate_jsonl,
    ".toml": mutate_toml,
    ".txt": mutate_text,
    ".xml": mutate_text,
    ".safetensors": mutate_safetensors,
}
