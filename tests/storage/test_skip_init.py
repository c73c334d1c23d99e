import subprocess
import sys

import pytest
import torch
from torch import nn

from sct.storage.skip_init import SkipInit


def make_modules():
    return nn.ModuleList([nn.LSTMCell(3, 2), nn.Embedding(4, 3), nn.Linear(3, 2), nn.Conv2d(3, 2, 1), nn.LayerNorm(5)])


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_shapes_are_those_of_an_initialized_module(device):
    with torch.device(device), SkipInit():
        bare = make_modules()
    initialized = make_modules()
    assert {name: weight.shape for name, weight in bare.state_dict().items()} == {
        name: weight.shape for name, weight in initialized.state_dict().items()
    }
    assert {weight.device.type for weight in bare.parameters()} == {device}
    bare.load_state_dict(initialized.state_dict(), assign=True)
    assert all(torch.equal(bare.state_dict()[name], weight) for name, weight in initialized.state_dict().items())


def test_random_state_is_unchanged():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with SkipInit():
        make_modules()
    assert torch.equal(torch.rand(3), expected)
    assert nn.Linear(9, 9).weight.std() > 0, "initialised again afterwards"


def test_building_a_model_does_not_import_the_compiler():
    code = (
        "import sys\nfrom sct.models.config import CaptionerConfig\nfrom sct.models.registry import state_dict_shapes\n"
        "state_dict_shapes(CaptionerConfig(vocabulary_size=9))\n"
        "print([name for name in ('torch._dynamo', 'sympy') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
