"""From images to requests with features: what is pointed at is looked at, or found where nobody points."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sct.captioner.requests import ImageRequest, ImageSource, RegionRequest, choose
from sct.errors import InputError
from sct.regions.images import LoadedImage, load_image
from sct.regions.records import Box, Control, Region, RegionSet
from sct.vision.interface import Sight, Vision


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """An image with the boxes that some request asks about, each once."""

    image: LoadedImage
    place_of_box: dict[Box, int] = field(default_factory=dict)

    def ask(self, box: Box) -> None:
        try:
            box.check_inside(self.image.width, self.image.height)
        except InputError as error:
            raise InputError(f"{self.image.name}: {error}") from error
        self.place_of_box.setdefault(box, len(self.place_of_box))

    def seen(self, box: Box, sight: Sight) -> Region:
        """What a look at the image gave of a box that was asked about."""
        return sight.regions[self.place_of_box[box]]

    @property
    def whole(self) -> Box:
        return Box(0.0, 0.0, float(self.image.width), float(self.image.height))


def opened(source: ImageSource) -> LoadedImage:
    """Decode an image, unless it is decoded already."""
    return source if isinstance(source, LoadedImage) else load_image(source)


def look_at(vision: Vision, requests: Sequence[ImageRequest], *, can_sort: bool) -> list[RegionRequest]:
    """See what requests point at, all images at once; one that several requests share is looked at once.

    Where nobody points, the proposals that are worth it are chosen: a set for the sorter, or, where there is none, a
    sequence with the best first. An image in which nothing is found is one region as a whole.
    """
    views: dict[int, _View] = {}
    for request in requests:
        key = id(request.image)
        if key not in views:
            views[key] = _View(opened(request.image))
        regions = () if request.control is None else _regions(request.control)
        for box in [region.box for region in regions] or [views[key].whole]:
            views[key].ask(box)
    images, boxes = [view.image for view in views.values()], [list(view.place_of_box) for view in views.values()]
    sights = dict(zip(views, vision.look(images, boxes), strict=True))
    found = []
    for request in requests:
        view, sight = views[id(request.image)], sights[id(request.image)]
        if request.control is None:
            chosen = choose(sight.proposals, request.choice) or (view.seen(view.whole, sight),)
            control = Control(tuple(RegionSet((region,)) for region in chosen), ordered=not can_sort)
        else:
            control = _seen(request.control, view, sight)
        size = (float(view.image.width), float(view.image.height))
        found.append(RegionRequest(control, image_size=size, descriptor=sight.descriptor))
    return found


def _regions(control: Control) -> list[Region]:
    return [region for region_set in control.region_sets for region in region_set.regions]


def _seen(control: Control, view: _View, sight: Sight) -> Control:
    """The control with what was seen of its regions; a name or a score that came with one is kept."""

    def known(region: Region) -> Region:
        seen = view.seen(region.box, sight)
        return replace(
            seen,
            class_name=seen.class_name if region.class_name is None else region.class_name,
            score=seen.score if region.score is None else region.score,
        )

    return replace(
        control, region_sets=tuple(RegionSet(tuple(map(known, each.regions))) for each in control.region_sets)
    )
