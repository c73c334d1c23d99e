"""Mutations of Parquet, HDF5, NumPy, PyTorch, tar and image files, made with the libraries that write them."""

import io
import json
import struct
import tempfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from PIL import Image

from tests.fuzz.mutations import dump_json, mutate_bytes, mutate_json, mutate_value


def mutate_parquet(random: Random, content: bytes) -> bytes:
    """Damage a value of a row, if the result still has a type for each column."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = parquet.read_table(io.BytesIO(content)).to_pylist()
    hostile = (
        None,
        -1,
        0,
        80,
        2**40,
        -(2**63),
        0.5,
        float("nan"),
        float("inf"),
        1e308,
        "",
        "a",
        "\x00",
        [],
        [None],
        {},
    )
    changed = mutate_value(random, rows, hostile)
    buffer = io.BytesIO()
    try:
        table = pa.Table.from_pylist(changed)
        if table.column_names and random.random() < 0.2:
            table = table.drop_columns([random.choice(table.column_names)])
        parquet.write_table(table, buffer)
    except (pa.ArrowException, AttributeError, IndexError, OverflowError, TypeError, ValueError):
        return mutate_bytes(random, content)
    return buffer.getvalue()


def mutate_hdf5(random: Random, content: bytes) -> bytes:
    """Replace, remove or add a dataset; sizes of a replaced one may exceed any memory, as no value is written."""
    import h5py

    with tempfile.NamedTemporaryFile(suffix=".h5") as copy:
        Path(copy.name).write_bytes(content)
        with h5py.File(copy.name, "r+") as file:
            name = random.choice(sorted(file))
            shape, kind = file[name].shape, random.randrange(8)
            if kind in (0, 1, 2, 3):
                del file[name]
            if kind == 0:
                file.create_group(name)
            elif kind == 1:
                rows, columns = (random.choice((0, 1, side, side + 1, 2**34, 2**62)) for side in shape)
                chunks = (1, 1) if rows and columns else None
                file.create_dataset(name, (rows, columns), "<f4", chunks=chunks, fillvalue=random.random())
            elif kind == 2:
                file[name] = random.choice(
                    (1.0, "text", [1, 2], np.ones(shape, np.int32), np.full(shape, np.nan, "f4"))
                )
            elif kind == 3:
                values = random.choice((1e30, -1.0, np.inf, 70000.0, 0.5))
                file.create_dataset(name, data=np.full(shape, values, "<f8"), compression="gzip")
            elif kind == 4:
                file[f"{random.choice(('é', '1', 'x'))}_features"] = np.ones((2, 3), np.float32)
            elif kind == 5:
                file[name + "_features"] = h5py.SoftLink(random.choice(("/nowhere", f"/{name}_features")))
            elif kind == 6:
                file[f"{name}_features"] = h5py.ExternalLink("/etc/passwd", "/x")
            else:
                dtype = random.choice(("<f2", ">f4", "<f8", "S3", [("a", "<f4")], h5py.vlen_dtype(np.float32)))
                del file[name]
                file.create_dataset(name, shape, dtype)
        return Path(copy.name).read_bytes()


def mutate_npy(random: Random, content: bytes) -> bytes:
    """Other numbers, dtypes and shapes, or a header that promises more than the file holds."""
    kind = random.randrange(4)
    if kind == 0:
        header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({random.choice((-1, 2**40, 2**62))},), }}"
        text = header.encode().ljust(117) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content[128:]
    values = np.load(io.BytesIO(content))
    made: tuple[Any, ...] = (
        values.astype(float) + 0.5, np.array(["a", "b"]), np.array([np.nan, np.inf]), values[:0], values[0],
        -values, values + 2**62, np.array([1j]), np.array([object()]), values.astype(bool), values.astype("M8[s]"),
    )  # fmt: skip
    buffer = io.BytesIO()
    np.save(buffer, random.choice(made))
    return buffer.getvalue()


def mutate_checkpoint(random: Random, content: bytes) -> bytes:
    """Replace a value of the authors' checkpoint by another type, shape or layout."""
    loaded = torch.load(io.BytesIO(content), weights_only=False)
    weights = loaded.get("state_dict", loaded)
    name = random.choice(sorted(weights))
    weight = weights[name]
    hostile: tuple[Any, ...] = (
        None, "text", 1.0, [weight], weight.double(), weight.long(), weight.bool(), weight.to(torch.complex64),
        weight.to_sparse(), weight.to("meta"), torch.nn.Parameter(weight), torch.full_like(weight, float("nan")),
        weight * float("inf"), weight[..., :0], weight.flatten(), weight[None], weight.T if weight.dim() == 2 else 0,
        torch.cat([weight, weight]), torch.zeros(()), torch.zeros(1).expand(2**20, 2**20),
        torch.zeros(1).expand(2**40, 1),
    )  # fmt: skip
    kind = random.randrange(6)
    if kind == 0:
        del weights[name]
    elif kind == 1:
        weights[random.choice((name + "x", "x", 7, ""))] = weight
    elif kind == 2:
        key = random.choice(sorted(map(str, loaded)))
        loaded[key] = random.choice((None, [], {}, "a", 10**400, float("nan"), {1: 2}, torch.ones(3), b"x", {1, 2}))
    else:
        weights[name] = random.choice(hostile)
    buffer = io.BytesIO()
    torch.save(loaded, buffer, _use_new_zipfile_serialization=random.random() < 0.7)
    return buffer.getvalue()


def mutate_png(random: Random, content: bytes) -> bytes:
    """Replace a chunk of a PNG file, with the right checksum."""
    position, chunks = 8, []
    while position < len(content):
        (size,) = struct.unpack(">I", content[position : position + 4])
        chunks.append((content[position + 4 : position + 8], content[position + 8 : position + 8 + size]))
        position += 12 + size
    index = random.randrange(len(chunks))
    kind, body = chunks[index]
    if kind == b"IHDR" and random.random() < 0.7:
        sides = [random.choice((0, 1, 40, 30_000, 2**31 - 1, 2**32 - 1)) for _ in range(2)]
        body = struct.pack(">II", *sides) + random.choice((body[8:], bytes([random.choice((1, 8, 16)), 6, 0, 0, 0])))
    elif kind == b"IDAT" and random.random() < 0.5:
        body = zlib.compress(bytes(random.choice((0, 10, 10**7))))
    else:
        body = mutate_bytes(random, body)
    chunks[index] = (random.choice((kind, kind, kind, b"tEXt", b"eXIf", b"PLTE", b"zTXt", b"iCCP")), body)
    if random.random() < 0.2:
        chunks.insert(random.randrange(len(chunks)), random.choice(chunks))
    return content[:8] + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def mutate_photo(random: Random, content: bytes) -> bytes:
    """Other orientations and EXIF data, or damaged bytes."""
    if random.random() < 0.7:
        return mutate_bytes(random, content)
    image = Image.open(io.BytesIO(content))
    exif = Image.Exif()
    exif[0x0112] = random.choice((0, 1, 3, 6, 8, 9, 99, 65535))
    exif[0x010E] = random.choice(("a", "é" * 1000))
    data = exif.tobytes()
    buffer = io.BytesIO()
    image.save(buffer, image.format, exif=mutate_bytes(random, data) if random.random() < 0.5 else data)
    return buffer.getvalue()


def mutate_array(random: Random, content: bytes) -> bytes:
    """Other numbers in a raw array of the same size."""
    start = random.randrange(len(content) // 4) * 4
    pattern = random.choice((bytes(4), b"\xff" * 4, struct.pack("<f", float("nan")), b"\x7f" * 4, random.randbytes(4)))
    end = random.choice((start + 4, len(content)))
    return content[:start] + (pattern * (len(content) // 4 + 1))[: end - start] + content[end:]


def mutate_tar(random: Random, content: bytes) -> bytes:
    """Damage a field of a header, with the right checksum: name, size, type, magic or prefix."""
    start = random.randrange(len(content) // 512) * 512
    header = bytearray(content[start : start + 512])
    first, last = random.choice(((0, 100), (124, 136), (156, 157), (257, 265), (345, 500)))
    sizes = (b"7" * 11, b"0" * 11, b"\x80" + bytes(7) + b"\1\0\0\0", b"\xff" * 12)
    value = random.choice((*sizes, b"0", b"L", b"x", b"g", b"5", b"S", random.randbytes(8)))
    header[first:last] = value[: last - first].ljust(last - first, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return content[:start] + bytes(header) + content[start + 512 :]


def mutate_form(random: Random, content: bytes) -> bytes:
    """Damage the JSON part of a multipart form."""
    start, end = content.index(b"{"), content.rindex(b"}") + 1
    return content[:start] + mutate_json(random, content[start:end]) + content[end:]


def mutate_journal(random: Random, content: bytes) -> bytes:
    """Damage a value of a line of a region store's journal, with the right checksum."""
    lines = content.splitlines()
    index = random.randrange(len(lines))
    value = json.loads(lines[index].rpartition(b" ")[0])
    body = dump_json(mutate_value(random, value)).encode("utf-8", "surrogatepass")
    lines[index] = body + b" %08x" % zlib.crc32(body)
    return b"".join(line + b"\n" for line in lines)
