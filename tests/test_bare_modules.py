"""Networks without weights: quick to make, and no compiler is imported for them."""

import subprocess
import sys

import torch
from torch import nn

from sct.bare_modules import bare_modules


def test_shapes_are_those_of_the_network():
    def make():
        return nn.ModuleList([nn.LSTMCell(3, 2), nn.Embedding(4, 3), nn.Linear(3, 2), nn.LayerNorm(5)])

    with bare_modules():
        bare = make()
    assert {name: weight.shape for name, weight in bare.state_dict().items()} == {
        name: weight.shape for name, weight in make().state_dict().items()
    }
    assert all(weight.is_meta for weight in bare.parameters())


def test_afterwards_weights_are_drawn_again():
    with bare_modules():
        pass
    torch.manual_seed(0)
    assert torch.randn(5).std() > 0
    assert nn.Linear(9, 9).weight.std() > 0


def test_a_captioner_is_made_without_the_compiler():
    code = (
        "import sys\nfrom sct.model.config import CaptionerConfig\nfrom sct.model.weights import weight_shapes\n"
        "weight_shapes(CaptionerConfig(vocabulary_size=9))\n"
        "print([name for name in ('torch._dynamo', 'sympy') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
