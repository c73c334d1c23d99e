"""From requests, as users make them, to the tables that a captioner sees; features are checked on the way."""

from collections.abc import Sequence

import numpy as np
import torch

from sct.captioner.requests import RegionRequest
from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch, collate_controls
from sct.regions import Region

_LARGEST_HALF = 65504.0


def collate_requests(requests: Sequence[RegionRequest], config: CaptionerConfig) -> ControlBatch:
    """Lay requests out; a feature that several regions share is there once."""
    features: list[np.ndarray] = []
    row_of_feature: dict[int, int] = {}

    def row(region: Region) -> int:
        key = id(region.feature)
        if key not in row_of_feature:
            row_of_feature[key] = len(features)
            features.append(_feature(region, config.feature_size))
        return row_of_feature[key]

    images, controls = [], []
    for request in requests:
        sets = [[row(region) for region in region_set.regions] for region_set in request.control.region_sets]
        described = [row(region) for region in request.detections] or [place for members in sets for place in members]
        controls.append([described] if config.ignores_control else sets)
        if request.descriptor is not None:
            images.append(_checked(request.descriptor, "the descriptor of an image", config.feature_size))
            continue
        images.append(_mean([features[place] for place in described], skip_zeros=config.mode == "reference"))
    return collate_controls(torch.from_numpy(np.stack(features)), torch.from_numpy(np.stack(images)), controls)


def _mean(features: Sequence[np.ndarray], *, skip_zeros: bool) -> np.ndarray:
    """Mean feature; like the authors' code, reference mode leaves out rows of zeros."""
    kept = [feature for feature in features if feature.any()] if skip_zeros else features
    mean: np.ndarray = np.stack(kept or features).mean(axis=0, dtype=np.float64)
    return mean.astype(np.float32)


def _feature(region: Region, expected: int) -> np.ndarray:
    if region.feature is None:
        raise InputError(f"region {tuple(region.box)} has no feature: expected {expected} numbers")
    return _checked(region.feature, f"the feature of region {tuple(region.box)}", expected)


def _checked(values: object, what: str, expected: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # becomes infinite, which is refused below
            feature = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} is no array of numbers ({error}): expected {expected} of them") from error
    if feature.shape != (expected,):
        raise InputError(f"{what} has shape {feature.shape}: expected ({expected},)")
    if not (np.abs(feature) <= _LARGEST_HALF).all():
        raise InputError(f"{what} has values that are not finite or beyond {_LARGEST_HALF:g}: expected smaller ones")
    return feature
