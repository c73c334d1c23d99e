"""``examples/demo.py``: the printed commands reproduce the printed captions."""

import json
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from PIL import Image

from sct.cli.main import run
from tests.color_vision import ColorVision
from tests.factories import make_bundle

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.syspath_prepend(ROOT / "examples")
        patch.setattr("sct.captioner.bundle.load_vision", ColorVision.load)
        import demo

        yield demo


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("demo") / "bundle")


@pytest.fixture(scope="module")
def printed(demo, bundle):
    """Printed lines; the drawings are beside the bundle."""
    with redirect_stdout(StringIO()) as out:
        demo.main(["--out", str(bundle.parent / "drawings"), "--model", str(bundle)])
    return [line.strip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("example", "arguments"),
    [
        pytest.param({}, [], id="no regions"),
        pytest.param({"regions": (((1, 2, 3, 4),),)}, ["--region", "1,2,3,4"], id="one box"),
        pytest.param(
            {"regions": (((5, 6, 7, 8),), ((1, 2, 3, 4), (0, 0, 9, 9))), "unordered": True, "cover": True},
            ["--region", "5,6,7,8", "--region", "1,2,3,4+0,0,9,9", "--unordered", "--cover"],
            id="everything",
        ),
    ],
)
def test_command_line_arguments(demo, example, arguments):
    assert demo.Example(title="", **example).arguments() == arguments


def test_printed_commands_print_the_printed_captions(demo, bundle, printed, capsys):
    commands = [number for number, line in enumerate(printed) if line.startswith("sct caption ")]
    assert len(commands) == sum(map(len, demo.EXAMPLES.values()))
    for number in commands:
        assert run([*shlex.split(printed[number])[1:], "--model", str(bundle), "--json"]) == 0
        assert _format(json.loads(capsys.readouterr().out)) == printed[number - 1]


def test_each_photograph_is_drawn_under_three_controls_or_more(demo, bundle, printed):
    drawings = {file.stem: file for file in (bundle.parent / "drawings").iterdir()}
    assert {photo.stem for photo in demo.PHOTOS.glob("*.jpg")} == set(drawings) == set(demo.EXAMPLES)
    for photo, examples in demo.EXAMPLES.items():
        assert len({tuple(example.arguments()) for example in examples}) >= 3
        with Image.open(demo.PHOTOS / f"{photo}.jpg") as photograph, Image.open(drawings[photo]) as sheet:
            assert sheet.width * sheet.height > 2 * photograph.width * photograph.height


def _format(record):
    """Caption of a JSON record as the demo prints it."""
    words = [word["text"] for word in record["words"]]
    for chunk in record["chunks"]:
        first, stop = chunk["words"]
        words[first] = f"[{words[first]}"
        words[stop - 1] += f"]{chunk['region_set'] + 1}"
    return " ".join(words)
