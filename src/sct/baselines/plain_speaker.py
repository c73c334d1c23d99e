"""A captioner of any kind for saying captions: a copy in another precision that takes steps as the original does."""

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from sct.decoding.contract import Step
from sct.errors import InputError
from sct.model.inputs import ControlInputs
from sct.model.products import DENSE, Products
from sct.model.system import CaptioningSystem
from sct.model.systems import make_system
from sct.undrawn import Undrawn


class PlainSpeaker:
    """Speaks with the weights that a system has now, without gradients."""

    def __init__(
        self, system: CaptioningSystem, products: Products = DENSE, dtype: torch.dtype = torch.float32
    ) -> None:
        if products is not DENSE:
            raise InputError(
                f"the captioner {system.config.variant!r} knows no int8 weights: wanted float32 or float16 for it"
            )
        self.config, self.dtype = system.config, dtype
        with torch.device("meta"), Undrawn():
            self._system = make_system(system.config)
        # Copies, also where the precision stays: what learns on must not change what is being said.
        weights = {name: weight.detach().to(dtype, copy=True) for name, weight in system.state_dict().items()}
        self._system.load_state_dict(weights, assign=True)
        self._system.eval()

    @torch.inference_mode()
    def begin(self, inputs: ControlInputs) -> Any:
        """The state before the first word, one row for each example."""
        return self._system.begin(inputs.to(inputs.image.device, self.dtype))

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """What comes after the last words."""
        return self._system.step(tokens, shifts, state)
