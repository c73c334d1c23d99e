"""What ``import sct`` offers, and the defaults that Python, the command line and HTTP share."""

import ast
import inspect
import subprocess
import sys
from dataclasses import MISSING, fields
from itertools import pairwise
from pathlib import Path

import pytest

import sct
from sct.captioner.captioner import Captioner
from sct.captioner.requests import CaptionOptions, ProposalSelection
from sct.cli.caption import caption_command
from sct.cli.detect import detect_command
from sct.cli.serve import serve_command
from sct.regions import Box, Control, Region, RegionSet
from sct.serving.client import Client
from sct.serving.schemas import AlternativesParams, CaptionParams, DetectParams
from tests.factories import make_captioner

ONLY_IN_PYTHON = {"min_length", "banned_words", "required_words", "reference_search"}
"""Options of captions that neither the command line nor HTTP has."""
OPTIONS = {field.name: field.default for field in fields(CaptionOptions) if field.name not in ONLY_IN_PYTHON}


def defaults(function) -> dict[str, object]:
    """Default of each parameter that has one."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def http_defaults(schema) -> dict[str, object]:
    return {name: field.default for name, field in schema.model_fields.items()}


def test_dir_lists_every_public_name_without_importing_it():
    code = (
        "import sys, sct\n"
        "missing = set(sct.__all__) - set(dir(sct))\n"
        "assert not missing and '__version__' in dir(sct), missing\n"
        "assert 'torch' not in sys.modules\n"
        "assert all(getattr(sct, name) is not None for name in dir(sct) if name in sct.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(
    "found",
    [
        pytest.param(defaults(caption_command), id="sct caption"),
        pytest.param(http_defaults(CaptionParams), id="POST /v1/caption"),
        pytest.param(defaults(Client.caption), id="Client.caption"),
        pytest.param({**http_defaults(AlternativesParams), "n_best": 1}, id="POST /v1/alternatives"),
        pytest.param({**defaults(Client.alternatives), "n_best": 1}, id="Client.alternatives"),
    ],
)
def test_options_have_the_same_default_everywhere(name, found):
    assert found[name] == OPTIONS[name]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("ordered", http_defaults(CaptionParams), id="HTTP, ordered"),
        pytest.param("relative", http_defaults(CaptionParams), id="HTTP, relative"),
        pytest.param("relative", defaults(caption_command), id="sct caption, relative"),
        pytest.param("ordered", defaults(Client.caption), id="Client, ordered"),
        pytest.param("relative", defaults(Client.caption), id="Client, relative"),
    ],
)
def test_controls_have_the_same_default_everywhere(name, found):
    assert found[name] == defaults(Captioner.caption)[name]
    assert defaults(caption_command)["unordered"] is not defaults(Captioner.caption)["ordered"]


def test_detection_has_the_same_limit_everywhere():
    limits = [
        defaults(each)["limit"] for each in (Captioner.detect, Captioner.detect_images, Client.detect, detect_command)
    ]
    assert {*limits, http_defaults(DetectParams)["limit"]} == {30}


def test_models_have_the_same_precision_and_device_everywhere():
    for name in ("device", "precision", "allow_download"):
        assert {defaults(each)[name] for each in (caption_command, serve_command, sct.load)} == {
            defaults(sct.load)[name]
        }


@pytest.mark.parametrize("record", [CaptionOptions, ProposalSelection, sct.ImageRequest, sct.RegionRequest])
def test_every_setting_is_documented(record):
    """By a string below the field, as editors and documentation tools read it."""
    tree = ast.parse(Path(inspect.getsourcefile(record)).read_text(encoding="utf-8"))
    [body] = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == record.__name__]
    documented = {
        field.target.id
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
    required = {field.name for field in fields(record) if field.default is MISSING and field.default_factory is MISSING}
    assert {field.name for field in fields(record)} - required <= documented


def test_short_reprs():
    boxes = Control((RegionSet((Region(Box(0, 0, 9, 9)), Region(Box(9, 0, 18, 9)))),), ordered=False)
    assert repr(boxes) == "Control([0,0,9,9]+[9,0,18,9], ordered=False)"
    assert repr(Control.from_boxes([(0, 0, 0.5, 1)] * 9, relative=True)).endswith("[0,0,0.5,1], 1 more, relative=True)")
    captioner = make_captioner()
    assert repr(captioner).startswith("Captioner('show_control_tell', ")
    assert "with vision, sorter, on cpu" in repr(captioner)
