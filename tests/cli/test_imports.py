"""Commands import only what they need: a cold start is mostly imports."""

import subprocess
import sys
from pathlib import Path

import pytest

PHOTO = Path(__file__).parents[2] / "examples" / "photos" / "otters.jpg"
OPTIONAL = (
    "fastapi",
    "h5py",
    "huggingface_hub",
    "lightning_fabric",
    "matplotlib",
    "pandas",
    "pyarrow",
    "pycocotools",
    "scipy",
    "spacy",
    "tensorboard",
    "transformers",
    "uvicorn",
)
"""Of extras and of development; they take seconds."""


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        pytest.param(["--help"], (*OPTIONAL, "torch", "safetensors"), id="help"),
        pytest.param(["caption", "--help"], (*OPTIONAL, "torch", "PIL", "rich"), id="caption --help"),
        pytest.param(
            ["caption", str(PHOTO)],
            (
                *OPTIONAL,
                "torch._dynamo",
                "torch._inductor",
                "sympy",
                "sct.training",
                "sct.evaluation",
                "sct.drawing.boxes",
            ),
            id="caption",
        ),
    ],
)
def test_unneeded_modules(arguments, unneeded):
    code = (
        "import sys; from sct.cli.main import run; assert run(sys.argv[1:]) == 0\n"
        f"print('imported:', *(name for name in {unneeded} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported:"


def test_the_package_itself_imports_nothing():
    code = "import sys, sct; print(*(name for name in ('numpy', 'typer', 'torch') if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
