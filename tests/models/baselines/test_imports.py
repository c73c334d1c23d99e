import subprocess
import sys

import pytest

from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.registry import build_model, model_spec
from tests.models.baselines.tiny_systems import SYSTEMS


def test_who_captions_with_ours_does_not_wait_for_them():
    """Not as an import here: other tests have imported all of it by now."""
    code = "import sys, sct.captioner.captioner; print(*(name for name in sys.modules if name.startswith('sct.models.baselines.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["sct.models.baselines.base"]


def test_the_model_does_without_them():
    code = (
        "import sys, sct.captioner.bundle; print(any(name.startswith('sct.models.baselines') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("variant", SYSTEMS)
def test_each_is_known_by_its_name(variant):
    assert issubclass(model_spec(variant).config, CaptionerConfig)


def test_refuses_unknown_names_and_the_configuration_of_another():
    with pytest.raises(InputError, match="got variant 'transformer', expected one of ours, "):
        model_spec("transformer")
    with pytest.raises(
        InputError, match="got a CaptionerConfig for variant 'neural_baby_talk', expected a BabyTalkConfig"
    ):
        build_model(CaptionerConfig(vocabulary_size=9, variant="neural_baby_talk"))
