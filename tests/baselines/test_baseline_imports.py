import subprocess
import sys

import pytest
from tiny_systems import SYSTEMS

from sct.errors import InputError
from sct.model.config import CaptionerConfig
from sct.model.systems import make_system, system_kind


def test_who_captions_with_ours_does_not_wait_for_them():
    """Not as an import here: other tests have imported all of it by now."""
    code = "import sys, sct.captioning; print(*(name for name in sys.modules if name.startswith('sct.baselines.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["sct.baselines.plain_speaker"]


def test_the_model_does_without_them():
    code = "import sys, sct.model.bundle; print(any(name.startswith('sct.baselines') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("variant", SYSTEMS)
def test_each_is_known_by_its_name(variant):
    assert issubclass(system_kind(variant).config, CaptionerConfig)


def test_refuses_unknown_names_and_the_configuration_of_another():
    with pytest.raises(InputError, match="variant 'transformer' is not known: wanted one of ours, "):
        system_kind("transformer")
    with pytest.raises(InputError, match="came with a CaptionerConfig: wanted a BabyTalkConfig"):
        make_system(CaptionerConfig(vocabulary_size=9, variant="neural_baby_talk"))
