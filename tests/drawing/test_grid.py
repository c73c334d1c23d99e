"""Figure grids: controls of an image's captions, captioned by a bundle and drawn side by side."""

from pathlib import Path

import pytest
from PIL import Image

from sct.cli.main import run
from sct.data.dataset import Dataset
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.drawing.grid import choose_controls, draw_grid
from sct.errors import InputError
from sct.regions import Box, Region
from tests.factories import make_dataset, make_image, make_layout_captioner, make_layout_dataset

TINY = Path(__file__).parents[2] / "examples" / "tiny"


def annotated(*captions: tuple[tuple[int, ...], ...]) -> AnnotatedImage:
    regions = tuple(Region(Box(number, 0, number + 1, 1), "dog") for number in range(3))
    made = [Caption("a", ("a",), (None,), tuple(Chunk("dog", members) for members in sets)) for sets in captions]
    return AnnotatedImage(image_id="1", split="val", width=9, height=9, regions=regions, captions=tuple(made))


@pytest.mark.parametrize(
    ("captions", "ordered", "controls"),
    [
        pytest.param([], True, [], id="no caption"),
        pytest.param([((), (1,))], True, [((1,),)], id="a chunk without a region"),
        pytest.param(
            [((0,), (1,)), ((1,), (0,)), ((0,), (1,))],
            True,
            [((0,), (1,)), ((1,), (0,)), ((0,),), ((1,),)],
            id="sequences, then sets alone",
        ),
        pytest.param(
            [((0,), (1,)), ((1,), (0,)), ((2,), (2,))],
            False,
            [((0,), (1,)), ((2,),), ((0,),), ((1,),)],
            id="distinct sets",
        ),
    ],
)
def test_choose_controls(captions, ordered, controls):
    assert choose_controls(annotated(*captions), 9, ordered=ordered) == controls
    assert choose_controls(annotated(*captions), 2, ordered=ordered) == controls[:2]


def test_a_captioner_without_vision_uses_classes_and_boxes(tmp_path):
    dataset = Dataset.open(make_layout_dataset(tmp_path / "data"))
    found = draw_grid(make_layout_captioner(), dataset, "2", None, count=4)
    sizes = [len(caption.control.region_sets) for caption in found.captions]
    assert sizes == [3, 2, 3, 2], "two captions, and their regions in reverse"
    assert found.drawing.width > 640


def test_an_image_without_a_grounded_chunk_is_refused(tmp_path):
    dataset = Dataset.open(make_dataset(tmp_path / "data", [make_image("1", ())]))
    with pytest.raises(InputError, match="image '1' has no caption with a grounded chunk"):
        draw_grid(make_layout_captioner(), dataset, "1", None)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    out = tmp_path_factory.mktemp("grid") / "tiny"
    assert run(["prepare", str(TINY), str(out)]) == 0
    return out


@pytest.mark.parametrize("control", ["sequence", "set"])
def test_command_line(tiny, control, tmp_path, capsys):
    words = ["show", str(tiny), "astronaut", "--model", "default", "--grid", str(tmp_path / "out.png")]
    assert run([*words, "--control", control, "--panels", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), lines[-1]) == (4, str(tmp_path / "out.png"))
    with Image.open(tmp_path / "out.png") as image:
        assert image.width > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--grid", "x.png"], "give --grid FILE --model BUNDLE", id="no model"),
        pytest.param(["--model", "default"], "give --grid FILE --model BUNDLE", id="no file"),
        pytest.param(["--model", "nowhere", "--grid", "x.png"], "nowhere", id="no bundle"),
    ],
)
def test_errors_are_one_line(tiny, arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["show", str(tiny), "astronaut", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
