"""Collation of controls into a ``ControlBatch``: of requests with features, and of samples of a dataset.

The training data loader has its own (``sct.training.captioner.dataloader``), which gathers from tables on the device.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from sct.captioner.requests import RegionRequest
from sct.data.features import Features
from sct.data.samples import MAX_REGIONS_PER_SET, RegionSets
from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch, collate_controls
from sct.regions.records import Region

_MAX_FLOAT16 = 65504.0


def collate_requests(requests: Sequence[RegionRequest], config: CaptionerConfig) -> ControlBatch:
    """Collate requests, checking features; a feature that several regions share is stored once."""
    features: list[np.ndarray] = []
    row_of_feature: dict[int, int] = {}

    def row(region: Region) -> int:
        key = id(region.feature)
        if key not in row_of_feature:
            row_of_feature[key] = len(features)
            features.append(_region_feature(region, config.feature_size))
        return row_of_feature[key]

    image_features, controls = [], []
    for request in requests:
        sets = [[row(region) for region in region_set.regions] for region_set in request.control.region_sets]
        detections = [row(region) for region in request.detections] or [
            member for members in sets for member in members
        ]
        controls.append([detections] if config.ignores_control else sets)
        if request.image_feature is not None:
            image_features.append(_check_feature(request.image_feature, "image_feature", config.feature_size))
            continue
        image_features.append(_mean([features[index] for index in detections], skip_zeros=config.mode == "reference"))
    return collate_controls(torch.from_numpy(np.stack(features)), torch.from_numpy(np.stack(image_features)), controls)


def collate_samples(
    features: Features, images: Sequence[int], controls: Sequence[RegionSets], *, max_members: int = MAX_REGIONS_PER_SET
) -> ControlBatch:
    """Collate controls of a dataset's images; features of the regions that they name are gathered once each.

    ``controls`` number the regions of each image; region sets are cut to ``max_members``.
    """
    distinct = list(dict.fromkeys(images))
    found = features(distinct)
    index_of_image = {image: index for index, image in enumerate(distinct)}
    indices = [index_of_image[image] for image in images]
    row_of_region: dict[int, int] = {}
    rows = []
    for index, control in zip(indices, controls, strict=True):
        first = int(found.first_row[index])
        rows.append(
            [
                [row_of_region.setdefault(first + member, len(row_of_region)) for member in members[:max_members]]
                for members in control
            ]
        )
    device = found.regions.device
    gathered = torch.tensor(list(row_of_region), dtype=torch.long, device=device)
    return collate_controls(found.regions[gathered], found.image[torch.tensor(indices, device=device)], rows)


def _mean(features: Sequence[np.ndarray], *, skip_zeros: bool) -> Float[np.ndarray, " features"]:
    """Mean feature; ``skip_zeros`` leaves out rows of zeros, as the authors' code does."""
    kept = [feature for feature in features if feature.any()] if skip_zeros else features
    mean: np.ndarray = np.stack(kept or features).mean(axis=0, dtype=np.float64)
    return mean.astype(np.float32)


def _region_feature(region: Region, feature_size: int) -> Float[np.ndarray, " features"]:
    if region.feature is None:
        raise InputError(f"region {tuple(region.box)} has no feature, expected {feature_size} numbers")
    return _check_feature(region.feature, f"the feature of region {tuple(region.box)}", feature_size)


def _check_feature(values: object, name: str, feature_size: int) -> Float[np.ndarray, " features"]:
    try:
        with np.errstate(over="ignore"):  # becomes infinite, which fails below
            feature = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not an array of numbers ({error}), expected {feature_size} of them") from error
    if feature.shape != (feature_size,):
        raise InputError(f"{name} has shape {feature.shape}, expected ({feature_size},)")
    if not (np.abs(feature) <= _MAX_FLOAT16).all():
        raise InputError(f"{name} has values that are not finite or exceed {_MAX_FLOAT16:g}: scale the features")
    return feature
