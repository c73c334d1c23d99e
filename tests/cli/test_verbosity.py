"""-v and -q: messages on stderr; results and errors stay."""

import logging

import pytest

from sct.cli.main import run
from sct.cli.verbosity import configure_verbosity, is_quiet, log_level
from tests.factories import make_image_files


@pytest.fixture(autouse=True)
def default_verbosity():
    yield
    configure_verbosity()
    logging.getLogger("sct").setLevel(logging.NOTSET)


@pytest.fixture
def command(tmp_path):
    folder = make_image_files(tmp_path / "images")
    (folder / "broken.png").write_bytes(b"no image")
    return ["caption", str(folder)]


def test_quiet_leaves_results_and_errors(command, capsys):
    assert run([*command, "-q"]) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    assert [line for line in err.splitlines() if "broken.png" not in line] == []
    assert run(command) == 2
    assert "images: 3 done, 0 skipped, 1 failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "level"),
    [
        pytest.param([], logging.WARNING, id="neither"),
        pytest.param(["-v"], logging.INFO, id="verbose"),
        pytest.param(["-vv"], logging.DEBUG, id="very verbose"),
        pytest.param(["--quiet"], logging.ERROR, id="quiet"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_options_before_and_after_the_command(options, level, is_first, capsys):
    assert run([*options, "recipes"] if is_first else ["recipes", *options]) == 0
    assert logging.getLogger("sct").level == level
    assert is_quiet() == (level == logging.ERROR)
    assert log_level(logging.INFO) == (logging.INFO if level == logging.WARNING else level)


def test_verbose_prints_logs_as_messages(capsys):
    configure_verbosity(1)
    logging.getLogger("sct.regions").info("a\nmessage")
    assert capsys.readouterr().err == "sct: a message\n"


def test_both_are_refused(capsys):
    assert run(["recipes", "-q", "-v"]) == 2
    assert "give one of them" in capsys.readouterr().err
