"""Encode images and extract region features for caption requests; without boxes, select proposals."""

from collections.abc import Sequence
from dataclasses import replace

from sct.captioner.candidates import candidate_controls, select_proposals
from sct.captioner.requests import ImageInput, ImageRequest, ProposalSelection, RegionRequest
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
    without proposals is one region as a whole. Candidate controls need a sorter.
    """
    size = (float(image.width), float(image.height))
    if control is not None:
        control = _add_features(clip_control(control, image.width, image.height, image.name), image)
        return RegionRequest(control, image_size=size, image_feature=image.image_feature)
    selection = selection or ProposalSelection()
    [whole] = image.regions([Box(0.0, 0.0, *size)])
    regions = select_proposals(image.proposals, selection) or (whole,)
    control = Control(tuple(RegionSet((region,)) for region in regions), ordered=not has_sorter)
    if not (has_sorter and selection.num_things):
        return RegionRequest(control, image_size=size, image_feature=image.image_feature)
    candidates = candidate_controls(image.proposals, whole, selection)
    return RegionRequest(control, image.proposals, size, image.image_feature, candidates)


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
