import pickle
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import pytest
from PIL import Image

from sct.errors import InputError
from sct.regions.image_source import ImageSource, open_images_beside
from tests.storage.test_tar import write_tar


def encode(shade, form="PNG"):
    buffer = BytesIO()
    Image.new("RGB", (6, 4), (shade, 0, 0)).save(buffer, form)
    return buffer.getvalue()


FILES = {"000000000009.png": encode(1), "train/COCO_train2014_000000000025.png": encode(2), "v1.5.png": encode(3)}


def make_folder(root):
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    (root / ".hidden.png").write_bytes(b"")
    return root


def make_tar(root):
    root.mkdir()
    return write_tar(root / "images.tar", {**FILES, "note.txt": b"no image"})


def make_shards(root):
    """As webdataset writes them: an image and its annotations have one stem."""
    root.mkdir()
    for number, (name, content) in enumerate(FILES.items()):
        stem = name.removesuffix(".png")
        write_tar(root / f"part-{number:03}.tar", {f"{stem}.json": b"{}", name: content, f"{stem}.txt": b"A dog."})
    return root


@pytest.fixture(params=[make_folder, make_tar, make_shards])
def source(request, tmp_path):
    return ImageSource.open(request.param(tmp_path / "images"))


def test_images_are_read_by_name(source):
    assert sorted(source.names) == sorted(FILES)
    assert len(source) == 3
    assert {name: source.read(name) for name in source.names} == FILES
    loaded = source.load("000000000009.png")
    assert (loaded.width, loaded.height, loaded.pixels[0, 0].tolist()) == (6, 4, [1, 0, 0])
    assert loaded.name.endswith("000000000009.png")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("", None, id="no name"),
        pytest.param("COCO_train2014_000000000025.png", "train/COCO_train2014_000000000025.png", id="file name"),
        pytest.param("val2017/000000000009.png", "000000000009.png", id="in another folder"),
        pytest.param("000000000009", "000000000009.png", id="stem"),
        pytest.param("000000000009.webp", "000000000009.png", id="another suffix"),
        pytest.param("v1.5", "v1.5.png", id="a stem with a dot"),
        pytest.param("v1", None, id="a part of a stem"),
        pytest.param("x" * 5000 + "\0", None, id="not a possible name"),
    ],
)
def test_find(source, name, found):
    assert source.find(name) == found


def test_a_missing_image(source):
    with pytest.raises(InputError, match=r"image 'nowhere\.png' is not in .*images.*: expected one of 3 images"):
        source.load("nowhere.png")


def test_threads_and_pickle(source):
    copy = pickle.loads(pickle.dumps(source))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(copy.read, list(FILES) * 8)) == list(FILES.values()) * 8


def test_deep_and_absolute_paths_in_folders(tmp_path):
    (tmp_path / "images" / "a" / "b").mkdir(parents=True)
    for path in (tmp_path / "images" / "a" / "b" / "c.png", tmp_path / "d.png"):
        path.write_bytes(encode(4))
    source = ImageSource.open(tmp_path / "images")
    assert source.read("a/b/c.png") == source.read(str(tmp_path / "d.png")) == encode(4)
    assert source.find("c.png") is None


def test_several_sources(tmp_path):
    """Of an image in two sources the first is used; two files of one name in one source are ambiguous."""
    tar = write_tar(tmp_path / "a.tar", {"1.png": encode(1), "x/2.png": encode(2), "y/2.png": encode(3)})
    (tmp_path / "images").mkdir()
    for name, shade in (("1.png", 5), ("3.png", 6)):
        (tmp_path / "images" / name).write_bytes(encode(shade))
    source = ImageSource.open(tar, tmp_path / "images")
    assert source.read("1.png") == encode(1)
    assert source.read("3.png") == encode(6)
    with pytest.raises(InputError, match=r"'2\.png' is ambiguous: expected 'x/2\.png' or 'y/2\.png'"):
        source.find("2.png")


def test_an_image_in_two_shards_is_an_error(tmp_path):
    for number in range(2):
        write_tar(tmp_path / f"{number}.tar", {"1.png": encode(number)})
    with pytest.raises(InputError, match=r"image '1\.png' is in .*0\.tar and in .*1\.tar: expected it in one"):
        ImageSource.open(tmp_path)


def test_a_later_member_of_a_tar_replaces_an_earlier_one(tmp_path):
    write_tar(tmp_path / "a.tar", {"1.png": encode(1), "./1.png": encode(2)})
    assert ImageSource.open(tmp_path / "a.tar").read("1.png") == encode(2)


def test_large_images_and_sources_are_refused(tmp_path, monkeypatch):
    source = ImageSource.open(make_tar(tmp_path / "images"))
    monkeypatch.setattr("sct.regions.image_source.MAX_IMAGE_BYTES", 10)
    with pytest.raises(InputError, match="expected an image of at most 10"):
        source.load("v1.5.png")
    monkeypatch.setattr("sct.regions.image_source.MAX_SOURCE_IMAGES", 2)
    with pytest.raises(InputError, match="has too many images: expected at most 2"):
        ImageSource.open(tmp_path / "images")


def test_image_files(tmp_path):
    make_folder(tmp_path)
    source = ImageSource.open(tmp_path / "v1.5.png", tmp_path / "000000000009.png")
    assert source.names == ("v1.5.png", "000000000009.png")
    assert source.read("v1.5.png") == FILES["v1.5.png"]


def test_what_is_no_source(tmp_path):
    with pytest.raises(InputError, match="nowhere does not exist: expected a folder of images, a tar file"):
        ImageSource.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"images is not a folder, expected the images of val\.jsonl there"):
        open_images_beside(tmp_path / "val.jsonl")
