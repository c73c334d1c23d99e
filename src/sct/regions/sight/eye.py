"""What sees pictures in a bundle: the network, with the names it knows."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from jaxtyping import Float
from PIL import Image
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sct.atomic import written_whole
from sct.errors import InputError
from sct.packing import pack, unpack
from sct.regions.pictures import Picture
from sct.regions.records import Box
from sct.regions.sight.glimpse import Glimpse
from sct.regions.sight.network import SightConfig, SightNetwork
from sct.regions.sight.proposing import propose
from sct.regions.sight.seeing import NetworkVision
from sct.regions.sight.transformer import TransformerConfig
from sct.regions.vision import Sight
from sct.undrawn import Undrawn

_FORMAT = "sct sight 1"
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's colours, which the transformer was first trained with."""


class Eye:
    """Sees regions in pictures (``sct.regions.vision.Vision``)."""

    def __init__(
        self, network: SightNetwork, names: tuple[str, ...], *, device: str | torch.device = "cpu", proposals: int = 30
    ) -> None:
        """``proposals``: how many regions it proposes for a picture, at most."""
        if len(names) != network.config.num_names:
            raise InputError(f"{len(names)} names came for a network of {network.config.num_names}: wanted as many")
        self.network, self.names, self.num_proposals = network.eval().to(device), names, proposals
        self.feature_size, self.side = network.config.told_size, network.config.side
        self._device = torch.device(device)

    def to(self, device: str | torch.device) -> "Eye":
        """The same on another device."""
        return Eye(self.network, self.names, device=device, proposals=self.num_proposals)

    def look(self, pictures: Sequence[Picture], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        """Look once at each picture, at the boxes that are asked for and for regions worth talking about."""
        if len(pictures) != len(boxes):
            raise InputError(f"{len(pictures)} pictures came with {len(boxes)} lists of boxes: wanted one for each")
        return [glimpse.sight(asked) for glimpse, asked in zip(self.glimpse(pictures), boxes, strict=True)]

    @torch.inference_mode()
    def glimpse(self, pictures: Sequence[Picture]) -> list[Glimpse]:
        """Look once at each picture, for who asks about more boxes in it later."""
        if not pictures:
            return []
        maps = self.network.look(prepared(pictures, self.side).to(self._device))
        found = propose(self.network, maps, self.num_proposals)
        return [
            Glimpse(self.network, self.names, picture, maps.of(number), proposals)
            for number, (picture, proposals) in enumerate(zip(pictures, found, strict=True))
        ]

    def save(self, path: Path) -> None:
        """Write it as one safetensors file, large matrices in 8 bits."""
        about = {
            "format": _FORMAT,
            "config": json.dumps(asdict(self.network.config)),
            "names": json.dumps(self.names),
        }
        with written_whole(path) as file:
            file.write(safetensors.torch.save(pack(self.network.state_dict()), metadata=about))


def load_vision(path: Path) -> NetworkVision:
    """Read what ``Eye.save`` wrote, or ``sct.regions.hub.HubEye.save``."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("format") != _FORMAT:
                return _load_other(about, path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    except OSError as error:
        raise InputError(
            f'{path} cannot be read ({error}): wanted the vision.safetensors of a run with task = "sight"'
        ) from error
    except SafetensorError as error:
        raise InputError(f"{path} is no whole network that sees ({error}): copy it again") from error
    try:
        settings = json.loads(about["config"])
        names = tuple(json.loads(about["names"]))
        config = SightConfig(**{**settings, "transformer": TransformerConfig(**settings["transformer"])})
        with Undrawn():
            network = SightNetwork(config)
        network.load_state_dict(unpack(tensors), assign=True)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        what = str(error).splitlines()[-1].strip()
        raise InputError(f"{path} is not as this sct writes such networks ({what}): make it again") from error
    network.lay_anchors()
    return Eye(network, names)


def _load_other(about: dict[str, str], path: Path) -> NetworkVision:
    from sct.regions.hub.eye import FORMAT, hub_vision_of  # noqa: PLC0415  it is an extra, and builds upon this module

    if about.get("format") != FORMAT:
        raise InputError(f"{path} has format {about.get('format')!r}: wanted {_FORMAT!r} or {FORMAT!r}")
    return hub_vision_of(about, path)


def prepared(pictures: Sequence[Picture], side: int) -> Float[Tensor, "pictures 3 side side"]:
    """Pictures as the network takes them: each a square of its side, whatever shape it had."""
    squares = [squared(picture.pixels, side) for picture in pictures]
    return normalised(torch.from_numpy(np.stack(squares)))


def squared(pixels: np.ndarray, side: int) -> np.ndarray:
    """A picture as a square of whole numbers, channels first."""
    resized = Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC)
    return np.asarray(resized).transpose(2, 0, 1)


def normalised(pixels: Tensor) -> Float[Tensor, "pictures 3 side side"]:
    """Colours from 0 to 255 as the network expects them."""
    mean, spread = (torch.tensor(values, device=pixels.device).view(3, 1, 1) for values in (MEAN, SPREAD))
    return (pixels.float() / 255 - mean) / spread
