import subprocess
import sys

import pytest

from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.registry import build_model, model_spec
from tests.models.baselines.tiny_systems import SYSTEMS


@pytest.mark.parametrize("module", ["sct.captioner.captioner", "sct.captioner.bundle"])
def test_captioning_does_not_import_baselines(module):
    """In a subprocess: other tests have imported them by now."""
    code = f"import sys, {module}; print(*(name for name in sys.modules if name.startswith('sct.models.baselines')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.split()


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
