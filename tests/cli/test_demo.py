"""The demonstration in ``examples/``: what it prints is what the commands say that it prints."""

import json
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from PIL import Image

from sct.cli.main import run
from tests.cli.seeing_bundle import make_bundle
from tests.colour_vision import ColourVision

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.syspath_prepend(ROOT / "examples")
        patch.setattr("sct.captioner.bundle.load_vision", ColourVision.load)
        import demo

        yield demo


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(tmp_path_factory.mktemp("demo") / "bundle")


@pytest.fixture(scope="module")
def shown(demo, bundle):
    """What is printed; the drawings lie beside the bundle."""
    with redirect_stdout(StringIO()) as out:
        demo.main(["--out", str(bundle.parent / "drawn"), "--model", str(bundle)])
    return [line.strip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        pytest.param({}, [], id="nothing given"),
        pytest.param({"regions": (((1, 2, 3, 4),),)}, ["--region", "1,2,3,4"], id="one box"),
        pytest.param(
            {"regions": (((5, 6, 7, 8),), ((1, 2, 3, 4), (0, 0, 9, 9))), "unordered": True, "cover": True},
            ["--region", "5,6,7,8", "--region", "1,2,3,4+0,0,9,9", "--unordered", "--cover"],
            id="everything",
        ),
    ],
)
def test_a_control_as_a_command(demo, asked, arguments):
    assert demo.Asked(title="", **asked).arguments() == arguments


def test_the_printed_commands_say_the_printed_captions(demo, bundle, shown, capsys):
    commands = [place for place, line in enumerate(shown) if line.startswith("sct caption ")]
    assert len(commands) == sum(map(len, demo.ASKED.values()))
    for place in commands:
        assert run([*shlex.split(shown[place])[1:], "--model", str(bundle), "--json"]) == 0
        assert _written(json.loads(capsys.readouterr().out)) == shown[place - 1]


def test_photographs_are_drawn_under_three_controls_or_more(demo, bundle, shown):
    drawn = {file.stem: file for file in (bundle.parent / "drawn").iterdir()}
    assert {photo.stem for photo in demo.PHOTOS.glob("*.jpg")} == set(drawn) == set(demo.ASKED)
    for photo, asked in demo.ASKED.items():
        assert len({tuple(each.arguments()) for each in asked}) >= 3
        with Image.open(demo.PHOTOS / f"{photo}.jpg") as taken, Image.open(drawn[photo]) as sheet:
            assert sheet.width * sheet.height > 2 * taken.width * taken.height


def _written(found):
    """The caption of a JSON object as people are shown it."""
    words = [word["text"] for word in found["words"]]
    for chunk in found["chunks"]:
        first, after = chunk["words"]
        words[first] = f"[{words[first]}"
        words[after - 1] += f"]{chunk['region_set'] + 1}"
    return " ".join(words)
