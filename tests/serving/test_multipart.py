"""Multipart parsing and decoding of uploaded images."""

import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sct.serving.client import encode_form
from sct.serving.middleware import APIError
from sct.serving.multipart import Body, decode_image, image_id, parse_form
from tests.color_vision import BLUE, GRAY, GREEN, RED, paint_quarters
from tests.serving.helpers import encode_file, photo

FORM = "multipart/form-data"


def body(data, content_type=f"{FORM}; boundary=xyz"):
    return Body(FORM, content_type, data)


def part(name, content=b"1", more=b""):
    return b'--xyz\r\nContent-Disposition: form-data; name="' + name + b'"' + more + b"\r\n\r\n" + content + b"\r\n"


@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        pytest.param(b"--xyz--\r\n", f"{FORM}; boundary=xyz", {}, id="no parts"),
        pytest.param(part(b"a") + b"--xyz--", f"{FORM}; boundary=xyz", {"a": b"1"}, id="one"),
        pytest.param(part(b"a") + b"--xyz--", f'{FORM}; boundary="xyz"', {"a": b"1"}, id="quoted boundary"),
        pytest.param(part(b"a") + b"--xyz--", f"{FORM}; BOUNDARY=xyz; charset=utf-8", {"a": b"1"}, id="parameters"),
        pytest.param(part(b"a", b"") + part(b"b") + b"--xyz--\r\n", None, {"a": b"", "b": b"1"}, id="an empty part"),
        pytest.param(b"before\r\n" + part(b"a") + b"--xyz--\r\nafter", None, {"a": b"1"}, id="text around"),
        pytest.param(part(b"a", b"x\r\n--xy\r\n\r\n--") + b"--xyz--", None, {"a": b"x\r\n--xy\r\n\r\n--"}, id="lines"),
        pytest.param(part(b"a", more=b'; filename="name.png"') + b"--xyz--", None, {"a": b"1"}, id="a file"),
        pytest.param(
            b'--xyz\r\nA: b\r\ncontent-disposition: form-data; filename="x"; name=a\r\n\r\n1\r\n--xyz--',
            None,
            {"a": b"1"},
            id="headers in another order",
        ),
    ],
)
def test_parse_form(data, content_type, expected):
    assert parse_form(body(data, content_type or f"{FORM}; boundary=xyz")) == expected


@pytest.mark.parametrize(
    ("data", "content_type", "message"),
    [
        pytest.param(b"", f"{FORM}; boundary=xyz", "has no parts", id="nothing"),
        pytest.param(part(b"a") + b"--xyz--", FORM, "has no boundary", id="no boundary"),
        pytest.param(part(b"a") + b"--xyz--", f"{FORM}; boundary=", "has no boundary", id="an empty boundary"),
        pytest.param(part(b"a") + b"--xyz--", f"{FORM}; boundary=other", "has no parts", id="another boundary"),
        pytest.param(part(b"a"), None, "incomplete", id="no end"),
        pytest.param(part(b"a") + part(b"a") + b"--xyz--", None, "two parts 'a'", id="twice"),
        pytest.param(b"--xyz\r\nname=a\r\n\r\n1\r\n--xyz--", None, "has no name", id="no name"),
        pytest.param(b"--xyz\r\n1\r\n--xyz--", None, "malformed headers", id="no headers"),
        pytest.param(b"--xyzzy\r\nA: b\r\n\r\n1\r\n--xyz--", None, "malformed headers", id="a longer boundary"),
        pytest.param(part(b"a", more=b"z" * 9000) + b"--xyz--", None, "malformed headers", id="long headers"),
        pytest.param(b"".join(part(b"%d" % n) for n in range(9)) + b"--xyz--", None, "more than 8 parts", id="many"),
    ],
)
def test_malformed_forms_are_rejected(data, content_type, message):
    with pytest.raises(APIError) as error:
        parse_form(body(data, content_type or f"{FORM}; boundary=xyz"))
    assert error.value.status == 400
    assert message in error.value.message


@given(st.dictionaries(st.sampled_from(["request", "image", "third"]), st.binary(max_size=300), min_size=1))
def test_parse_form_inverts_encode_form(parts):
    boundary = "0123456789abcdef" * 3
    assert parse_form(body(encode_form(boundary, parts), f"{FORM}; boundary={boundary}")) == parts


@given(st.binary(max_size=200) | st.binary(max_size=99).map(lambda content: part(b"a", content) + b"--xyz--"))
def test_any_bytes_are_parsed_or_rejected(data):
    with suppress(APIError):
        assert isinstance(parse_form(body(data)), dict)


PIXELS = paint_quarters(RED, GREEN, GRAY, BLUE)


def png_header(width: int, height: int) -> bytes:
    """PNG file with the header of a large image and almost no data."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def rejection(data, max_megapixels=40.0):
    with pytest.raises(APIError) as error:
        decode_image(data, "name", max_megapixels)
    return error.value


@pytest.mark.parametrize("image_format", ["png", "jpeg", "webp", "gif", "bmp", "avif"])
def test_decode_image(image_format):
    image = decode_image(encode_file(PIXELS, image_format), "name", 40.0)
    assert (image.width, image.height, image.name) == (40, 20, "name")
    assert np.abs(image.pixels[5, 5].astype(int) - RED).max() < 40


def test_exif_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6
    image = decode_image(encode_file(PIXELS, "jpeg", exif=exif), "name", 40.0)
    assert (image.width, image.height) == (20, 40)


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        pytest.param(b"", 422, "0 bytes", id="empty"),
        pytest.param(b"no image", 415, "unknown image format, it starts with b'no image'", id="text"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "unknown image format", id="svg"),
        pytest.param(encode_file(PIXELS, "tiff"), 415, "unknown image format", id="not a browser format"),
        pytest.param(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415, "unknown image", id="PostScript"),
        pytest.param(photo()[:-30], 422, "damaged or incomplete", id="truncated png"),
        pytest.param(encode_file(PIXELS, "jpeg")[:400], 422, "damaged", id="truncated jpeg"),
        pytest.param(photo()[:20], 422, "damaged", id="half a header"),
        pytest.param(png_header(20_000, 2_001), 413, "20000 x 2001 pixels, expected at most 40 megapixels", id="large"),
        pytest.param(png_header(12_000, 12_000), 413, "megapixel", id="Pillow warning"),
        pytest.param(png_header(60_000, 60_000), 413, "too many pixels", id="decompression bomb"),
        pytest.param(png_header(2_000, 2_000), 422, "damaged or incomplete", id="less data than the header claims"),
    ],
)
def test_invalid_images_are_rejected(data, status, message):
    error = rejection(data)
    assert error.status == status
    assert message in error.message


def test_pixel_limit():
    assert decode_image(photo(), "name", 0.0008).width == 40
    assert rejection(photo(), 0.0007).status == 413


def test_image_id_is_the_sha256_of_the_file():
    assert image_id(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@given(st.sampled_from(["png", "jpeg", "gif", "webp", "bmp"]), st.integers(8, 400), st.binary(min_size=1, max_size=9))
def test_corrupted_images_are_decoded_or_rejected(image_format, position, noise):
    data = bytearray(encode_file(PIXELS, image_format))
    data[position : position + len(noise)] = noise
    with suppress(APIError):
        image = decode_image(bytes(data), "name", 1.0)
        assert image.width * image.height <= 1_000_000


def test_nothing_is_written_to_disk(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.mkstemp", None)
    decode_image(encode_file(np.zeros((1500, 2000, 3), np.uint8)), "name", 40.0)
    assert not list(tmp_path.iterdir())
