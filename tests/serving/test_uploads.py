"""Images as strangers send them: of many kinds, broken, and larger than they look."""

import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sct.serving.middleware import APIError
from sct.serving.multipart import decode_upload, image_id
from tests.colour_vision import quartered
from tests.serving.studio_model import BLUE, GREEN, GREY, RED, encoded, photo

PIXELS = quartered(RED, GREEN, GREY, BLUE)


def png_of(width: int, height: int) -> bytes:
    """A header that claims a size, with hardly anything behind it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def refused(data, megapixels=40.0):
    with pytest.raises(APIError) as refusal:
        decode_upload(data, "name", megapixels)
    return refusal.value.status, refusal.value.sentence


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "gif", "bmp", "avif"])
def test_decodes_what_browsers_show(kind):
    image = decode_upload(encoded(PIXELS, kind), "name", 40.0)
    assert (image.width, image.height, image.name) == (40, 20, "name")
    assert np.abs(image.pixels[5, 5].astype(int) - RED).max() < 40


def test_an_upright_image_has_upright_sides():
    exif = Image.Exif()
    exif[0x0112] = 6
    image = decode_upload(encoded(PIXELS, "jpeg", exif=exif), "name", 40.0)
    assert (image.width, image.height) == (20, 40)


@pytest.mark.parametrize(
    ("data", "status", "sentence"),
    [
        pytest.param(b"", 422, "0 bytes", id="empty"),
        pytest.param(b"no image", 415, "of no known kind, it begins with b'no pictu'", id="text"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "of no known kind", id="svg"),
        pytest.param(encoded(PIXELS, "tiff"), 415, "of no known kind", id="a kind that browsers do not show"),
        pytest.param(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415, "of no known kind", id="a program"),
        pytest.param(photo()[:-30], 422, "damaged or incomplete", id="truncated png"),
        pytest.param(encoded(PIXELS, "jpeg")[:400], 422, "damaged", id="truncated jpeg"),
        pytest.param(photo()[:20], 422, "damaged", id="half a header"),
        pytest.param(png_of(20_000, 2_001), 413, "20000 x 2001 pixels: expected at most 40 megapixel", id="large"),
        pytest.param(png_of(12_000, 12_000), 413, "megapixel", id="what Pillow warns about"),
        pytest.param(png_of(60_000, 60_000), 413, "too many pixels", id="bomb"),
        pytest.param(png_of(2_000, 2_000), 422, "damaged or incomplete", id="less than it claims"),
    ],
)
def test_refuses(data, status, sentence):
    got = refused(data)
    assert got[0] == status
    assert sentence in got[1]


def test_the_limit_can_be_lower():
    assert decode_upload(photo(), "name", 0.0008).width == 40
    assert refused(photo(), 0.0007)[0] == 413


def test_the_id_is_the_sha_256_of_the_bytes():
    assert image_id(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@given(st.sampled_from(["png", "jpeg", "gif", "webp", "bmp"]), st.integers(8, 400), st.binary(min_size=1, max_size=9))
def test_a_broken_image_is_decoded_or_refused(kind, place, noise):
    whole = bytearray(encoded(PIXELS, kind))
    whole[place : place + len(noise)] = noise
    with suppress(APIError):
        image = decode_upload(bytes(whole), "name", 1.0)
        assert image.width * image.height <= 1_000_000


def test_nothing_is_written_to_disk(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.mkstemp", None)
    decode_upload(encoded(np.zeros((1500, 2000, 3), np.uint8)), "name", 40.0)
    assert not list(tmp_path.iterdir())
