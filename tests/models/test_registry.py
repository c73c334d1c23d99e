import subprocess
import sys

import pytest

from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.registry import build_model, model_spec
from tests.models.variants import BASELINES


@pytest.mark.parametrize("module", ["sct.captioner.captioner", "sct.captioner.bundle"])
def test_captioning_does_not_import_baselines(module):
    """In a subprocess: other tests have imported them by now."""
    code = f"import sys, {module}; print(*(name for name in sys.modules if name.startswith('sct.models.baselines')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.split()


@pytest.mark.parametrize("variant", BASELINES)
def test_every_baseline_is_registered(variant):
    assert issubclass(model_spec(variant).config, CaptionerConfig)


def test_rejects_unknown_variants_and_other_config_classes():
    with pytest.raises(InputError, match="got variant 'perceiver', expected one of show_control_tell, "):
        model_spec("perceiver")
    with pytest.raises(
        InputError, match="got a CaptionerConfig for variant 'neural_baby_talk', expected a NeuralBabyTalkConfig"
    ):
        build_model(CaptionerConfig(vocabulary_size=9, variant="neural_baby_talk"))


def test_a_model_that_fits_no_memory_is_refused_before_it_is_allocated():
    with pytest.raises(InputError, match=r"would have [\d,]+ weights, expected at most 1,073,741,824: lower its sizes"):
        build_model(CaptionerConfig(vocabulary_size=5, hidden_size=1 << 16))
