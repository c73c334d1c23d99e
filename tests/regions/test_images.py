import threading
import warnings
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile, PngImagePlugin

from sct.errors import InputError
from sct.limits import MAX_MEGAPIXELS
from sct.regions.images import MAX_SIDE, list_folder, load_image

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 128, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)
# An L of three colours on white: no turn or flip of it looks like another.
SIGN = np.array([[RED, GREEN, WHITE], [BLUE, WHITE, WHITE]], np.uint8)


def sign(times: int = 1) -> Image.Image:
    return Image.fromarray(np.kron(SIGN, np.ones((times, times, 1), np.uint8)))


def saved(image: Image.Image, format: str, **options) -> bytes:  # noqa: A002
    with BytesIO() as file:
        image.save(file, format, **options)
        return file.getvalue()


def test_one_pixel():
    image = load_image(Image.new("RGB", (1, 1), RED))
    assert (image.width, image.height, image.name) == (1, 1, "the image")
    assert image.pixels.tolist() == [[list(RED)]]


@pytest.mark.parametrize(
    ("format", "options"),
    [
        pytest.param("PNG", {}, id="PNG"),
        pytest.param("GIF", {}, id="GIF"),
        pytest.param("BMP", {}, id="BMP"),
        pytest.param("PPM", {}, id="PPM"),
        pytest.param("WEBP", {"lossless": True}, id="WebP"),
        pytest.param("TIFF", {"compression": "tiff_lzw"}, id="TIFF"),
        pytest.param("JPEG2000", {}, id="JPEG 2000"),
    ],
)
def test_file_bytes_and_pillow_image_give_the_same(format, options, tmp_path):  # noqa: A002
    content = saved(sign(), format, **options)
    path = tmp_path / "sign"
    path.write_bytes(content)
    for source in (path, str(path), content, sign(), SIGN):
        image = load_image(source)
        assert (image.width, image.height) == (3, 2)
        assert np.array_equal(image.pixels, SIGN)
    assert load_image(path).name == str(path)
    assert load_image(content, name="my dog").name == "my dog"


@pytest.mark.parametrize(
    ("image", "pixels"),
    [
        pytest.param(Image.new("L", (1, 1), 90), [90, 90, 90], id="grey"),
        pytest.param(Image.new("1", (1, 1), 1), WHITE, id="one bit"),
        pytest.param(Image.new("RGB", (1, 1), GREEN).quantize(2), GREEN, id="palette"),
        pytest.param(Image.new("LA", (1, 1), (0, 0)), WHITE, id="grey and transparent"),
        pytest.param(Image.new("RGBA", (1, 1), (*BLACK, 0)), WHITE, id="transparent is white, whatever lies beneath"),
        pytest.param(Image.new("RGBA", (1, 1), (*RED, 51)), (255, 204, 204), id="a fifth of red on white"),
        pytest.param(Image.new("CMYK", (1, 1), (0, 255, 255, 0)), RED, id="four inks"),
        pytest.param(Image.new("YCbCr", (1, 1), (128, 128, 128)), [128] * 3, id="luma and chroma"),
        pytest.param(Image.new("I;16", (1, 1), 65535), WHITE, id="16 bits, white"),
        pytest.param(Image.new("I;16", (1, 1), 257 * 7), [7] * 3, id="16 bits, dark: scaled by the range of 16 bits"),
        pytest.param(Image.new("I", (1, 1), 257 * 7), [7] * 3, id="16 bits in 32"),
        pytest.param(Image.new("F", (1, 1), 0.2), [51] * 3, id="floating point up to 1"),
        pytest.param(Image.new("F", (1, 1), 51.0), [51] * 3, id="floating point up to 255"),
    ],
)
def test_pixel_modes_are_converted_to_rgb(image, pixels):
    assert load_image(image).pixels[0, 0].tolist() == list(pixels)


@pytest.mark.parametrize(
    ("array", "pixels"),
    [
        pytest.param(np.full((1, 1), True), WHITE, id="yes and no"),
        pytest.param(np.full((1, 1, 1), 9, np.uint8), [9] * 3, id="one channel"),
        pytest.param(np.array([[[*RED, 0]]], np.uint8), WHITE, id="with opacity"),
        pytest.param(np.full((1, 1, 3), 257 * 7, np.uint16), [7] * 3, id="16 bits"),
        pytest.param(np.full((1, 1, 3), 0.2), [51] * 3, id="floating point"),
        pytest.param(SIGN[:, ::-1], WHITE, id="a view"),
    ],
)
def test_arrays_are_converted_to_rgb(array, pixels):
    assert load_image(array).pixels[0, 0].tolist() == list(pixels)


def test_gray_of_16_bits_in_a_file_is_not_clipped():
    ramp = np.linspace(0, 65535, 6).astype(np.uint16)[None]
    image = load_image(saved(Image.fromarray(ramp), "PNG"))
    assert image.pixels[0, :, 0].tolist() == [0, 51, 102, 153, 204, 255]


@pytest.mark.parametrize("mode", ["P", "L", "RGB"])
def test_a_transparent_color_of_a_png_is_white(mode):
    color = {"P": 0, "L": 0, "RGB": BLACK}[mode]
    content = saved(Image.new(mode, (1, 1), color), "PNG", transparency=b"\0" if mode == "P" else color)
    assert load_image(content).pixels[0, 0].tolist() == list(WHITE)


TURNED = {
    1: SIGN,
    2: SIGN[:, ::-1],
    3: SIGN[::-1, ::-1],
    4: SIGN[::-1],
    5: SIGN.transpose(1, 0, 2),
    6: np.rot90(SIGN, -1),
    7: SIGN[::-1, ::-1].transpose(1, 0, 2),
    8: np.rot90(SIGN),
}


@pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", TURNED)
def test_exif_orientation_is_applied(orientation, format):  # noqa: A002
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if format == "WEBP" else {}
    image = load_image(saved(sign(), format, exif=exif, **options))
    assert np.array_equal(image.pixels, TURNED[orientation])
    assert (image.height, image.width) == TURNED[orientation].shape[:2]


@pytest.mark.parametrize("orientation", [0, 9, 300, "up"])
def test_unknown_orientations_are_ignored(orientation):
    image = sign()
    image.getexif()[0x0112] = orientation
    loaded = load_image(image)
    assert np.array_equal(loaded.pixels, SIGN)
    assert (loaded.height, loaded.width) == SIGN.shape[:2]


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", [0, 9, 99, 65535])
def test_unknown_orientations_of_files_are_ignored(orientation, format):  # noqa: A002
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = load_image(saved(sign(), format, exif=exif))
    assert (image.height, image.width) == image.pixels.shape[:2] == SIGN.shape[:2]


def test_damaged_metadata_is_ignored():
    content = saved(sign(), "PNG", exif=b"Exif\0\0nothing that anybody can read")
    assert np.array_equal(load_image(content).pixels, SIGN)


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_frame_of_an_animation_is_used(format):  # noqa: A002
    options = {"lossless": True} if format == "WEBP" else {}
    content = saved(sign(), format, save_all=True, append_images=[Image.new("RGB", (3, 2), BLACK)], **options)
    assert np.array_equal(load_image(content).pixels, SIGN)


def test_large_images_are_downscaled_and_keep_their_size():
    image = load_image(saved(sign(1000), "PNG"))  # 3000 x 2000
    assert (image.width, image.height) == (3000, 2000)
    assert image.pixels.shape == (683, MAX_SIDE, 3)
    centers = image.pixels[[170, 511]][:, [170, 511, 853]]
    assert np.array_equal(centers, SIGN)


def test_large_rotated_image():
    exif = Image.Exif()
    exif[0x0112] = 6
    image = load_image(saved(sign(1000), "JPEG", exif=exif))
    assert (image.width, image.height) == (2000, 3000)
    assert image.pixels.shape == (MAX_SIDE, 683, 3)
    assert np.allclose(image.pixels[170, 511], RED, atol=6), "was left at the top, is right now"


def test_strips_of_a_large_image_join_up(monkeypatch):
    noise = np.random.default_rng(3).integers(0, 256, (2900, 2100, 3), dtype=np.uint8)
    whole = load_image(noise)
    monkeypatch.setattr("sct.regions.images._STRIP_PIXELS", 100_000)
    assert np.array_equal(load_image(noise).pixels, whole.pixels)


def test_large_jpegs_are_decoded_at_lower_resolution(tmp_path, monkeypatch):
    path = tmp_path / "large.jpg"
    sign(1400).save(path)  # 12 megapixel
    decoded = []
    load = ImageFile.ImageFile.load

    def watched(self):
        decoded.append(self.size)
        return load(self)

    monkeypatch.setattr(ImageFile.ImageFile, "load", watched)
    image = load_image(path)
    assert (image.width, image.height) == (4200, 2800)
    assert decoded[0] == (1050, 700)


def test_hundred_megapixels(tmp_path):
    path = tmp_path / "huge.png"
    Image.new("1", (12_500, 8_000), 1).save(path)
    image = load_image(path)
    assert (image.width, image.height) == (12_500, 8_000)
    assert image.pixels.shape == (655, 1024, 3)
    assert image.pixels.min() == 255


def test_very_thin_image():
    image = load_image(np.zeros((1, 5000), np.uint8))
    assert (image.width, image.height, image.pixels.shape) == (5000, 1, (1, 1024, 3))


def png_that_claims(width: int, height: int) -> bytes:
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    with BytesIO() as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        PngImagePlugin.putchunk(file, b"IHDR", header)
        PngImagePlugin.putchunk(file, b"IDAT", b"")
        return file.getvalue()


@pytest.mark.parametrize(
    ("width", "height", "message"),
    [
        pytest.param(50_000, 50_000, "has too many pixels: expected at most 150 megapixel", id="far too many"),
        pytest.param(15_000, 10_001, "has 15000 x 10001 pixels: expected at most 150 megapixel", id="just too many"),
        pytest.param(15_000, 10_000, "is damaged or incomplete", id="as many as may be, but none of them there"),
    ],
)
def test_decompression_bombs_are_refused(width, height, message, tmp_path):
    assert MAX_MEGAPIXELS == 150
    path = tmp_path / "bomb.png"
    path.write_bytes(png_that_claims(width, height))
    with pytest.raises(InputError, match=rf"bomb\.png .*{message}"):
        load_image(path)


PHOTOGRAPH = Path(__file__).parents[2] / "examples" / "tiny" / "images" / "coffee.jpg"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is an empty file, 0 bytes: expected a JPEG", id="empty"),
        pytest.param(
            b"<html>not found", r"not a known image format, it starts with b'<html>.*: expected a JPEG", id="page"
        ),
        pytest.param(b"%!PS-Adobe-3.0 EPSF-3.0\n", "not a known image format", id="a format that runs other programs"),
        pytest.param(PHOTOGRAPH.read_bytes()[:900], "is damaged or incomplete", id="truncated early"),
        pytest.param(PHOTOGRAPH.read_bytes()[:-900], "is damaged or incomplete", id="truncated late"),
        pytest.param(saved(sign(30), "PNG")[:-60], "is damaged or incomplete", id="truncated PNG"),
        pytest.param(saved(sign(30), "GIF")[:-60], "is damaged or incomplete", id="truncated GIF"),
        pytest.param(saved(sign(30), "WEBP")[:-60], "is damaged or incomplete", id="truncated WebP"),
        pytest.param(saved(sign(30), "BMP")[:-60], "is damaged or incomplete", id="truncated BMP"),
        pytest.param(saved(sign(30), "PNG")[:50] + bytes(40) + saved(sign(30), "PNG")[90:], "damaged", id="corrupt"),
    ],
)
def test_unreadable_files_are_one_line_errors(content, message, tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        load_image(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param("none.jpg", r"none\.jpg does not exist: expected a JPEG", id="missing"),
        pytest.param("a.txt/none.jpg", r"none\.jpg does not exist", id="inside a file"),
        pytest.param("folder", "folder is a folder: expected a JPEG", id="folder"),
        pytest.param("x" * 300, "cannot be opened", id="a name too long for a file"),
        pytest.param("a\0b", "cannot be opened", id="a name that no file can have"),
    ],
)
def test_other_paths_are_refused(path, message, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(InputError, match=message):
        load_image(tmp_path / path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(b"", "the image is empty, 0 bytes", id="no bytes"),
        pytest.param(np.zeros((0, 3), np.uint8), r"shape \(0, 3\)", id="no rows"),
        pytest.param(
            np.zeros((2, 2, 2), np.uint8), r"shape \(2, 2, 2\): expected rows, columns and", id="two channels"
        ),
        pytest.param(np.zeros(4, np.uint8), r"shape \(4,\)", id="one axis"),
        pytest.param(
            np.zeros((2, 2), np.int64), "array of int64 values: expected uint8", id="whole numbers of 64 bits"
        ),
        pytest.param(np.full((2, 2), np.nan), "from nan to nan: expected 0 to 1 or 0 to 255", id="not a number"),
        pytest.param(np.full((2, 2), -0.5), "from -0.5 to -0.5", id="negative light"),
        pytest.param(np.full((2, 2), 300.0), "from 300 to 300", id="whiter than white"),
        pytest.param(Image.new("F", (2, 2), 300.0), "from 300 to 300", id="whiter than white in an image"),
        pytest.param(
            Image.fromarray(np.array([[0.5, np.nan]], np.float32)),
            "some values are not finite",
            id="a hole in an image",
        ),
        pytest.param(Image.new("I", (2, 2), -1), "from -1 to -1: expected 0 to 65535", id="negative in an image"),
        pytest.param(Image.new("L", (0, 2)), r"no pixels \(0 x 2\)", id="an image without pixels"),
    ],
)
def test_bad_values_are_refused(source, message):
    with pytest.raises(InputError, match=message):
        load_image(source)


@given(st.sampled_from(["JPEG", "PNG", "GIF", "BMP", "PPM", "WEBP"]), st.data())
def test_damaged_files_raise_input_error_only(format, data):  # noqa: A002
    content = bytearray(saved(sign(4), format))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with suppress(InputError):
        assert load_image(bytes(content)).pixels.size


def test_warning_filters_are_restored_when_threads_overlap():
    before = list(warnings.filters)
    content = saved(sign(300), "PNG")
    threads = [threading.Thread(target=load_image, args=(content,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


def test_images_of_a_folder_in_natural_order(tmp_path):
    (tmp_path / "inside.png").mkdir()
    for name in ("a10.jpg", "a2.JPG", "a1.webp", "notes.txt", ".a3.jpg", "b.jpeg"):
        (tmp_path / name).touch()
    assert [path.name for path in list_folder(tmp_path)] == ["a1.webp", "a2.JPG", "a10.jpg", "b.jpeg"]
