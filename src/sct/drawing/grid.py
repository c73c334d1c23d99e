"""Figure grids: one dataset image captioned under several controls, one panel each (Figures 5, 6, 9 and 10)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from sct.captioner.captioner import Captioner
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.requests import ImageRequest, RegionRequest
from sct.data.dataset import Dataset
from sct.data.features import make_features
from sct.data.records import AnnotatedImage
from sct.data.samples import MAX_REGIONS_PER_SET
from sct.drawing.boxes import scale_box
from sct.drawing.captions import TitledCaption, draw_captions
from sct.drawing.palette import CANVAS
from sct.errors import InputError
from sct.regions import Control, Region, RegionSet
from sct.regions.images import LoadedImage
from sct.regions.sharded_store import AnyRegionStore

RegionSets = tuple[tuple[int, ...], ...]
"""Region sets of a control, as indices into the image's regions."""
_CANVAS_SIDE = 640


@dataclass(frozen=True, slots=True, eq=False)
class FigureGrid:
    """Captions of one image under several controls, and their drawing."""

    captions: tuple[GroundedCaption, ...]
    drawing: Image.Image


def choose_controls(image: AnnotatedImage, count: int, *, ordered: bool = True) -> list[RegionSets]:
    """Choose controls from the captions of an image: those of its captions, as far as all chunks have a region.

    If there are too few, sequences are also reversed, and then each region set stands alone. Unordered controls are
    distinct sets.
    """
    sets_of_caption = [tuple(chunk.regions for chunk in caption.chunks or ()) for caption in image.captions]
    found = [sets for sets in sets_of_caption if sets and all(sets)]
    found += [sets[::-1] for sets in found] if ordered else []
    found += [(members,) for sets in sets_of_caption for members in sets if members]
    if ordered:
        return list(dict.fromkeys(found))[:count]
    distinct: dict[frozenset[tuple[int, ...]], RegionSets] = {}
    for sets in found:
        distinct.setdefault(frozenset(sets), tuple(dict.fromkeys(sets)))
    return list(distinct.values())[:count]


def draw_grid(
    captioner: Captioner,
    dataset: Dataset,
    image_id: str,
    loaded: LoadedImage | None,
    *,
    ordered: bool = True,
    count: int = 6,
    store: AnyRegionStore | None = None,
) -> FigureGrid:
    """Caption an image of a dataset under several controls and draw the captions side by side.

    A bundle without a vision encoder uses the dataset's classes and boxes, or its region ``store``; the image, if it is
    not ``loaded``, is then an empty canvas.
    """
    image = dataset[image_id]
    controls = choose_controls(image, count, ordered=ordered)
    if not controls:
        raise InputError(f"image {image_id!r} has no caption with a grounded chunk: choose another image")
    canvas = loaded or _empty_canvas(image)
    regions = _place_regions(image, canvas)
    if captioner.vision is None:
        regions = _add_features(captioner, dataset, image, regions, store)
        size = (float(canvas.width), float(canvas.height))
        requests = [RegionRequest(_make_control(sets, regions, ordered=ordered), regions, size) for sets in controls]
        found = captioner.caption_batch(requests)
    elif loaded is None:
        raise InputError(f"the file of image {image_id!r} is missing, which the bundle encodes: name it with --images")
    else:
        found = captioner.caption_images(
            [ImageRequest(loaded, _make_control(sets, regions, ordered=ordered)) for sets in controls]
        )
    captions = tuple(hypotheses[0] for hypotheses in found)
    return FigureGrid(captions, draw_captions(canvas, [TitledCaption(caption) for caption in captions]))


def _empty_canvas(image: AnnotatedImage) -> LoadedImage:
    scale = _CANVAS_SIDE / max(image.width, image.height)
    width, height = (max(1, round(side * scale)) for side in (image.width, image.height))
    pixels = np.broadcast_to(np.array(CANVAS, np.uint8), (height, width, 3)).copy()
    return LoadedImage(pixels, width, height, image.image_id)


def _place_regions(image: AnnotatedImage, canvas: LoadedImage) -> tuple[Region, ...]:
    """Regions in pixels of the canvas; a source may have relative boxes."""
    scale = canvas.width / image.width, canvas.height / image.height
    return tuple(replace(region, box=scale_box(region.box, *scale)) for region in image.regions)


def _add_features(
    captioner: Captioner,
    dataset: Dataset,
    image: AnnotatedImage,
    regions: Sequence[Region],
    store: AnyRegionStore | None,
) -> tuple[Region, ...]:
    features = make_features(dataset.table, store, captioner.encoder, skip_zeros=captioner.config.mode == "reference")
    found = features([dataset.table.image_ids.index(image.image_id)])
    rows = found.regions[int(found.first_row[0]) :].cpu().numpy()
    return tuple(replace(region, feature=rows[index]) for index, region in enumerate(regions))


def _make_control(sets: RegionSets, regions: Sequence[Region], *, ordered: bool) -> Control:
    members = (tuple(regions[index] for index in each[:MAX_REGIONS_PER_SET]) for each in sets)
    return Control(tuple(map(RegionSet, members)), ordered=ordered)
