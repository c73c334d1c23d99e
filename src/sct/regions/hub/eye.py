"""What sees pictures by models of the hub."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import safetensors.torch
import torch
from jaxtyping import Float
from torch import Tensor

from sct.atomic import written_whole
from sct.errors import InputError
from sct.regions.hub.config import HubConfig
from sct.regions.hub.detector import Detections, HubDetector
from sct.regions.hub.fetching import fetch_backbone, fetch_detector
from sct.regions.hub.network import HubNetwork
from sct.regions.pictures import Picture
from sct.regions.records import Box, Region
from sct.regions.sight.candidates import overlaps
from sct.regions.sight.eye import prepared
from sct.regions.vision import Sight

FORMAT = "sct hub vision 1"
_LEAST_OVERLAP = 0.5
"""Of a box that somebody asks for with a detection, for it to have its name."""


class HubEye:
    """Sees regions in pictures (``sct.regions.sight.seeing.NetworkVision``)."""

    def __init__(
        self,
        config: HubConfig,
        network: HubNetwork,
        detector: HubDetector | None,
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        """Without a detector nothing is proposed, and nothing has a name."""
        self._device = torch.device(device)
        self.config, self.network = config, network.eval().to(self._device)
        self._detector = None if detector is None else detector.to(self._device)
        self.feature_size, self.side = network.feature_size, network.side

    def to(self, device: str | torch.device) -> "HubEye":
        """The same on another device."""
        return HubEye(self.config, self.network, self._detector, device=device)

    @torch.inference_mode()
    def look(self, pictures: Sequence[Picture], boxes: Sequence[Sequence[Box]]) -> list[Sight]:
        """Look at each picture, at the boxes that are asked for and for objects that the detector knows."""
        if len(pictures) != len(boxes):
            raise InputError(f"{len(pictures)} pictures came with {len(boxes)} lists of boxes: wanted one for each")
        if not pictures:
            return []
        maps = self.network.look(prepared(pictures, self.side).to(self._device))
        return [
            self._sight(picture, asked, maps[number : number + 1])
            for number, (picture, asked) in enumerate(zip(pictures, boxes, strict=True))
        ]

    def _sight(self, picture: Picture, asked: Sequence[Box], maps: Float[Tensor, "1 channels rows columns"]) -> Sight:
        found = Detections.none(self._device)
        if self._detector is not None:
            found = self._detector.detect(picture, self._device)
        size = torch.tensor([picture.width, picture.height] * 2, dtype=torch.float32, device=self._device)
        wanted = torch.tensor([list(box) for box in asked], dtype=torch.float32, device=self._device).view(-1, 4) / size
        rows = torch.cat([torch.tensor([[0.0, 0.0, 1.0, 1.0]], device=self._device), wanted, found.boxes])
        descriptor, *features = self.network.features(maps, rows[None])[0].cpu().numpy()
        regions = [
            Region(box, name, score, feature)
            for box, (name, score), feature in zip(asked, _named(wanted, found), features[: len(asked)], strict=True)
        ]
        proposals = [
            Region(Box(*box), name, score, feature)
            for box, name, score, feature in zip(
                (found.boxes * size).tolist(), found.names, found.scores.tolist(), features[len(asked) :], strict=True
            )
        ]
        return Sight(descriptor, tuple(regions), tuple(proposals))

    def save(self, path: Path) -> None:
        """Write the names of the models and no weights; who reads it needs the same models."""
        about = {"format": FORMAT, "config": json.dumps(asdict(self.config))}
        with written_whole(path) as file:
            file.write(safetensors.torch.save({}, metadata=about))


def open_hub_vision(config: HubConfig) -> HubEye:
    """Fetch the models, from the hub or from this machine, and look at one picture to see that they can."""
    backbone = fetch_backbone(config.backbone, config.backbone_revision)
    network = HubNetwork(backbone, config.backbone, config.side)
    config = replace(config, backbone=_lasting(config.backbone), backbone_revision=backbone.revision, side=network.side)
    if config.detector is None:
        return HubEye(config, network, None)
    fetched = fetch_detector(config.detector, config.detector_revision)
    detector = HubDetector(fetched, config.detector, least_score=config.least_score, limit=config.max_proposals)
    config = replace(config, detector=_lasting(config.detector), detector_revision=fetched.revision)
    return HubEye(config, network, detector)


def save_hub_vision(path: Path, config: HubConfig) -> HubEye:
    """Write a file that ``sct train ... examples.vision=FILE`` and bundles see with.

    Names are pinned to the commit that they stand for today, a local folder to its full path.
    """
    eye = open_hub_vision(config)
    eye.save(path)
    return eye


def hub_vision_of(about: Mapping[str, str], path: Path) -> HubEye:
    """Read what ``HubEye.save`` wrote about itself."""
    try:
        config = HubConfig(**json.loads(about["config"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} does not say which models see ({error}): make it anew (sct.regions.hub)") from error
    try:
        return open_hub_vision(config)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _named(boxes: Float[Tensor, "boxes 4"], found: Detections) -> list[tuple[str | None, float | None]]:
    """Name and score of the detection that a box overlaps most, where that is much."""
    if not found.names:
        return [(None, None)] * len(boxes)
    best = overlaps(boxes, found.boxes).max(1)
    return [
        (found.names[place], found.scores[place].item()) if overlap >= _LEAST_OVERLAP else (None, None)
        for overlap, place in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def _lasting(name: str) -> str:
    """A name that leads to the same model from any folder."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name
