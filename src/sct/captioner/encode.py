"""Encode images and extract region features for caption requests; without boxes, select proposals."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sct.captioner.requests import ImageInput, ImageRequest, ProposalSelection, RegionRequest
from sct.regions.boxes import nms
from sct.regions.images import LoadedImage, load_image
from sct.regions.parsing import clip_control
from sct.regions.records import Box, Control, Region, RegionSet
from sct.vision.interface import EncodedImage, VisionEncoder


def as_image(source: ImageInput) -> LoadedImage:
    """Load an image unless it is loaded already."""
    return source if isinstance(source, LoadedImage) else load_image(source)


def encode_requests(
    vision: VisionEncoder, requests: Sequence[ImageRequest], *, has_sorter: bool
) -> list[RegionRequest]:
    """Encode the images of requests in one batch, each once, and add region features; see ``region_request``."""
    images: dict[int, LoadedImage] = {}
    controls: list[Control | None] = []
    for request in requests:
        if id(request.image) not in images:
            images[id(request.image)] = as_image(request.image)
        image = images[id(request.image)]
        controls.append(request.control and clip_control(request.control, image.width, image.height, image.name))
    encoded = dict(zip(images, vision.encode(list(images.values())), strict=True))
    return [
        region_request(encoded[id(request.image)], control, request.selection, has_sorter=has_sorter)
        for request, control in zip(requests, controls, strict=True)
    ]


def region_request(
    image: EncodedImage,
    control: Control | None,
    selection: ProposalSelection | None = None,
    *,
    has_sorter: bool,
) -> RegionRequest:
    """Request for an encoded image, with region features for the control.

    Without a control, proposals are selected: as a set if there is a sorter, otherwise highest score first. An image
    without proposals is one region as a whole.
    """
    if control is None:
        regions = select_proposals(image.proposals, selection) or image.regions(
            [Box(0.0, 0.0, float(image.width), float(image.height))]
        )
        control = Control(tuple(RegionSet((region,)) for region in regions), ordered=not has_sorter)
    else:
        control = _add_features(clip_control(control, image.width, image.height, image.name), image)
    size = (float(image.width), float(image.height))
    return RegionRequest(control, image_size=size, image_feature=image.image_feature)


def select_proposals(proposals: Sequence[Region], selection: ProposalSelection | None = None) -> tuple[Region, ...]:
    """Apply score threshold, class-aware NMS and the maximum number to proposals, which come highest score first.

    >>> found = [Region(Box(x, 0, x + 9, 9), "man", score) for x, score in ((0, 0.9), (1, 0.8), (20, 0.7))]
    >>> [region.score for region in select_proposals(found)]
    [0.9, 0.7]
    """
    if not proposals:
        return ()
    selection = selection or ProposalSelection()
    min_score = selection.relative_score_threshold * (proposals[0].score or 0.0)
    candidates = [region for region in proposals if (region.score or 0.0) >= min_score]
    class_ids = {name: number for number, name in enumerate({region.class_name for region in candidates})}
    kept = nms(
        np.array([region.box for region in candidates], np.float64),
        np.array([region.score or 0.0 for region in candidates], np.float64),
        selection.iou_threshold,
        classes=np.array([class_ids[region.class_name] for region in candidates]),
        same_class_iou_threshold=selection.same_class_iou_threshold,
    )
    return tuple(candidates[index] for index in kept[: selection.max_regions])


def _add_features(control: Control, image: EncodedImage) -> Control:
    """Add features to the regions of a control; a class name or score that the user gave is kept."""
    boxes = list(dict.fromkeys(region.box for region_set in control.region_sets for region in region_set.regions))
    encoded = dict(zip(boxes, image.regions(boxes), strict=True))

    def merge(region: Region) -> Region:
        found = encoded[region.box]
        return replace(
            found,
            class_name=region.name or region.class_name or found.class_name,
            score=found.score if region.score is None else region.score,
            name=region.name,
        )

    return replace(
        control,
        region_sets=tuple(RegionSet(tuple(map(merge, region_set.regions))) for region_set in control.region_sets),
    )
