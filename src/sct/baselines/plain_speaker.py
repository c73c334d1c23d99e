"""A captioner of any kind for saying captions: a copy in another precision that takes steps as the original does."""

from collections.abc import Callable
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
        self._begin_in: Callable[..., Any] | None = getattr(self._system, "begin_in", None)

    @property
    def has_manners(self) -> bool:
        """Whether it can say the same in several manners."""
        return self._begin_in is not None

    @torch.inference_mode()
    def begin(self, inputs: ControlInputs) -> Any:
        """The state before the first word, one row for each example."""
        return self._system.begin(inputs.to(inputs.image.device, self.dtype))

    @torch.inference_mode()
    def begin_in(self, inputs: ControlInputs, manners: Int[Tensor, " examples"]) -> Any:
        """The same in other manners than the likeliest, for a system that has several."""
        if self._begin_in is None:
            raise InputError(f"the captioner {self.config.variant!r} has one manner of speaking: wanted none named")
        return self._begin_in(inputs.to(inputs.image.device, self.dtype), manners)

    @torch.inference_mode()
    def step(self, tokens: Int[Tensor, " rows"], shifts: Int[Tensor, " rows"], state: Any) -> Step:
        """What comes after the last words."""
        return self._system.step(tokens, shifts, state)
