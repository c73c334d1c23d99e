"""The public face: load a bundle, hand it a control, get grounded captions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from sct.decoding import Decoded, Guarantees, Settings, beam_search
from sct.errors import InputError
from sct.grounded_caption import ChosenOrder, GroundedCaption, SpokenWord, grounded, with_order
from sct.language.vocabulary import Vocabulary
from sct.model.bundle import load_bundle
from sct.model.explain import Explanation, explain
from sct.model.fused import FusedCaptioner
from sct.model.graphed import GraphedSearch
from sct.model.inputs import ControlInputs, pack_controls
from sct.model.network import CaptionNetwork
from sct.model.products import DENSE, INT8, check_int8
from sct.regions import Control, Region
from sct.regions.layout import LayoutEncoder
from sct.sorting import SetSorter

Precision = Literal["float32", "float16", "int8"]
_LARGEST_HALF = 65504.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptionOptions:
    """How a caption is to be found, and what must hold for it."""

    beam_size: int = 5
    n_best: int = 1
    max_length: int = 20
    """Most words, the end of the sentence counted as one."""
    min_length: int = 0
    length_power: float = 0.0
    """Favours longer captions when above 0; 0 is the paper's search."""
    cover: bool = False
    """Talk about every region set, in order, before the sentence ends."""
    no_repeat: int = 0
    """Never say the same so many words in a row twice; 0 is off."""
    banned: tuple[str, ...] = ()
    """Words that are never said; "<unk>" may be one of them."""
    required: tuple[str, ...] = ()
    """Words that are all said."""
    reference_search: bool = False
    """Search as the authors' released code does, also with other weights than theirs."""

    def __post_init__(self) -> None:
        """Refuse values of the wrong kind; what clashes is told by the search."""
        for name in ("beam_size", "n_best", "max_length", "min_length", "no_repeat"):
            if type(getattr(self, name)) is not int:
                raise InputError(f"{name} is {getattr(self, name)!r}: wanted a whole number")
        if not isfinite(self.length_power):
            raise InputError(f"length_power is {self.length_power}: wanted 0 (off) or more")
        for name in ("banned", "required"):
            if isinstance(getattr(self, name), str):
                raise InputError(f"{name} is {getattr(self, name)!r}: wanted a tuple of words")


@dataclass(frozen=True, slots=True)
class CaptionRequest:
    """A control whose regions have features, and the image it is about."""

    control: Control
    detections: tuple[Region, ...] = ()
    """Regions of the whole image, whose mean feature describes it; without them the control's own do."""
    image_size: tuple[float, float] | None = None
    """Width and height of the picture, in the unit of the boxes: a sorter asks where in it a region is."""


class Captioner:
    """Captions pictures under control; made by ``sct.load``."""

    def __init__(
        self,
        network: CaptionNetwork,
        vocabulary: Vocabulary,
        *,
        encoder: LayoutEncoder | None = None,
        sorter: SetSorter | None = None,
        device: str = "cpu",
        precision: Precision = "float32",
    ) -> None:
        """Lay the network out for a device: ``float16`` is for GPUs, ``int8`` for CPUs; a sorter stays on the CPU."""
        self.vocabulary = vocabulary
        self.encoder = encoder
        self.sorter = sorter
        self.device = _checked_device(device)
        if precision not in get_args(Precision):
            raise InputError(f"precision {precision!r}: wanted {', '.join(get_args(Precision))}")
        if precision == "float16" and self.device.type == "cpu":
            raise InputError("float16 is slower than float32 on a CPU: wanted float32 or int8 there")
        if precision == "int8" and self.device.type != "cpu":
            raise InputError(f"int8 weights are for CPUs, not for {device}: wanted float32 or float16 there")
        if precision == "int8":
            check_int8()
        dtype = torch.float16 if precision == "float16" else torch.float32
        self.config = network.config
        self._fused = FusedCaptioner(network.to(self.device), INT8 if precision == "int8" else DENSE, dtype)
        self._graphed: dict[Settings, GraphedSearch] = {}

    def caption_regions(
        self,
        control: Control,
        detections: Sequence[Region] = (),
        options: CaptionOptions | None = None,
        *,
        image_size: tuple[float, float] | None = None,
    ) -> GroundedCaption:
        """The best caption for regions that have features; ``image_size`` is needed for a control without order."""
        [[best, *_]] = self.caption_batch([CaptionRequest(control, tuple(detections), image_size)], options)
        return best

    def caption_batch(
        self, requests: Sequence[CaptionRequest], options: CaptionOptions | None = None
    ) -> list[list[GroundedCaption]]:
        """The ``n_best`` captions of each request, best first; images and controls may differ in size."""
        if not requests:
            return []
        orders = self._orders(requests)
        ordered = [
            request if order is None else _put_in_order(request, order)
            for request, order in zip(requests, orders, strict=True)
        ]
        captions = self.caption_inputs(self._inputs(ordered), options)
        return [
            found if order is None else [with_order(caption, order) for caption in found]
            for found, order in zip(captions, orders, strict=True)
        ]

    def _orders(self, requests: Sequence[CaptionRequest]) -> list[ChosenOrder | None]:
        """What the sorter chooses for each control that is a set; one set is in order whatever anybody thinks."""
        found: list[ChosenOrder | None] = [
            ChosenOrder((0,), 1.0) if _is_set(request) and len(request.control.region_sets) == 1 else None
            for request in requests
        ]
        rows = [row for row, request in enumerate(requests) if _is_set(request) and found[row] is None]
        if not rows:
            return found
        if self.sorter is None:
            raise InputError(
                "the control is a set, and the bundle has no sorter to put it in order: give the regions in order, or "
                "take a bundle with a sorter (sct train recipes/sorter_*.toml from=BUNDLE makes one)"
            )
        sizes = [size for row in rows if (size := requests[row].image_size) is not None]
        if len(sizes) < len(rows):
            raise InputError(
                "the control is a set, and the size of its picture is not known: give image_size=(width, height), so "
                "that the sorter knows where in the picture a region is"
            )
        orders = self.sorter.orders([requests[row].control for row in rows], sizes)
        none: list[float | None] = [None] * len(rows)
        probabilities = none if orders.probability is None else orders.probability.tolist()
        for row, order, probability in zip(rows, orders.lists(), probabilities, strict=True):
            found[row] = ChosenOrder(tuple(order), probability)
        return found

    def caption_inputs(
        self, inputs: ControlInputs, options: CaptionOptions | None = None
    ) -> list[list[GroundedCaption]]:
        """The ``n_best`` captions of each control, best first, from features that are packed already."""
        options = options or CaptionOptions()
        inputs = inputs.to(self.device)
        decoded = self.search(inputs, options)
        examples, n_best, _ = decoded.words.shape
        longest = int(decoded.spoken.sum(-1).max())
        explanation = explain(
            self._fused,
            inputs,
            torch.arange(examples, device=self.device).repeat_interleave(n_best),
            decoded.words.flatten(0, 1)[:, :longest],
            decoded.shifts.flatten(0, 1)[:, :longest],
            Settings().begin,
        )
        return _grounded_captions(decoded, explanation, inputs, self.vocabulary, options)

    def search(self, inputs: ControlInputs, options: CaptionOptions | None = None) -> Decoded:
        """Word ids alone, for who needs many captions and no groundings."""
        options = options or CaptionOptions()
        inputs = inputs.to(self.device)
        on_gpu = self.device.type == "cuda"
        settings = Settings(
            max_length=options.max_length,
            beam_size=options.beam_size,
            n_best=options.n_best,
            length_power=options.length_power,
            early_stop=not on_gpu,
        )
        guarantees = Guarantees(
            cover=options.cover,
            min_length=options.min_length,
            no_repeat=options.no_repeat,
            banned_words=self._ids(options.banned),
            required_words=self._ids(options.required),
        )
        constraints = guarantees.constraints(settings, inputs.num_slots, self.device)
        can_follow = constraints is None and not options.length_power
        if options.reference_search and not can_follow:
            raise InputError("the authors' search knows no guarantees and no length_power: leave these or it out")
        if options.reference_search or (self.config.mode == "reference" and can_follow):
            # Who comes with the authors' weights gets the authors' search as well.
            settings = replace(settings, freeze=False, early_stop=False)
        if on_gpu and constraints is None:
            return self._graphed.setdefault(settings, GraphedSearch(self._fused, settings))(inputs)
        return beam_search(self._fused, self._fused.begin(inputs), settings, constraints)

    def _ids(self, words: Sequence[str]) -> tuple[int, ...]:
        for word in words:
            if word not in self.vocabulary.ids:
                raise InputError(
                    f"word {word!r} is not in the vocabulary of {len(self.vocabulary)} words: wanted one it has"
                )
        return tuple(self.vocabulary.ids[word] for word in words)

    def _inputs(self, requests: Sequence[CaptionRequest]) -> ControlInputs:
        features: list[np.ndarray] = []
        row_of_feature: dict[int, int] = {}

        def row(region: Region) -> int:
            key = id(region.feature)
            if key not in row_of_feature:
                row_of_feature[key] = len(features)
                features.append(self._feature(region))
            return row_of_feature[key]

        images, controls = [], []
        for request in requests:
            sets = [[row(region) for region in region_set.regions] for region_set in request.control.region_sets]
            controls.append(sets)
            described = [row(region) for region in request.detections] or [
                place for members in sets for place in members
            ]
            images.append(self._image([features[place] for place in described]))
        return pack_controls(torch.from_numpy(np.stack(features)), torch.from_numpy(np.stack(images)), controls)

    def _image(self, features: Sequence[np.ndarray]) -> np.ndarray:
        """Mean feature; like the authors' code, reference mode leaves out rows of zeros."""
        kept = [feature for feature in features if feature.any()] if self.config.mode == "reference" else features
        mean: np.ndarray = np.stack(kept or features).mean(axis=0, dtype=np.float64)
        return mean.astype(np.float32)

    def _feature(self, region: Region) -> np.ndarray:
        place, wanted = f"the feature of region {tuple(region.box)}", self.config.feature_size
        if region.feature is None:
            raise InputError(f"region {tuple(region.box)} has no feature: wanted {wanted} numbers")
        try:
            with np.errstate(over="ignore"):  # becomes infinite, which is refused below
                feature = np.asarray(region.feature, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(f"{place} is no array of numbers ({error}): wanted {wanted} of them") from error
        if feature.shape != (wanted,):
            raise InputError(f"{place} has shape {feature.shape}: wanted ({wanted},)")
        if not (np.abs(feature) <= _LARGEST_HALF).all():
            raise InputError(f"{place} has values that are not finite or beyond {_LARGEST_HALF:g}: wanted smaller ones")
        return feature


def _checked_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r} is unknown: wanted cpu or cuda") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"device {name!r} is not at hand: wanted cpu{' or cuda' if torch.cuda.is_available() else ''}")
    return device


def load(folder: str | Path = "default", *, device: str = "cpu", precision: Precision = "float32") -> Captioner:
    """Load a bundle."""
    if str(folder) == "default":
        raise InputError("no default bundle ships yet: name the folder of one, such as sct import-reference makes")
    bundle = load_bundle(Path(folder))
    return Captioner(
        bundle.captioner,
        bundle.vocabulary,
        encoder=bundle.encoder,
        sorter=bundle.sorter,
        device=device,
        precision=precision,
    )


def _is_set(request: CaptionRequest) -> bool:
    return not request.control.ordered


def _put_in_order(request: CaptionRequest, order: ChosenOrder) -> CaptionRequest:
    sets = request.control.region_sets
    return replace(request, control=Control(tuple(sets[number] for number in order.sets), ordered=True))


def _grounded_captions(
    decoded: Decoded,
    explanation: Explanation,
    inputs: ControlInputs,
    vocabulary: Vocabulary,
    options: CaptionOptions,
) -> list[list[GroundedCaption]]:
    """Turn tensors into records; what stands for a caption that could not be found is left out."""
    examples, n_best, _ = decoded.words.shape
    summed = (decoded.word_log_probs + decoded.shift_log_probs).sum(-1)
    words, scores = decoded.words.tolist(), (summed if options.length_power else decoded.scores).tolist()
    spoken = (decoded.spoken & (decoded.words != Settings().end)).tolist()
    alive = (decoded.scores > -torch.inf).tolist()
    sizes = inputs.set_mask.sum(-1).tolist()
    pointer, attention = explanation.pointer.tolist(), explanation.attention.tolist()
    sentinel, shift = explanation.sentinel_weight.tolist(), explanation.shift_probability.tolist()
    captions = []
    for example in range(examples):
        found = []
        for rank in range(n_best):
            row = example * n_best + rank
            said = [
                SpokenWord(
                    vocabulary.words[words[example][rank][time]],
                    pointer[row][time],
                    tuple(attention[row][time][: sizes[example][pointer[row][time]]]),
                    sentinel[row][time],
                    shift[row][time],
                )
                for time, is_said in enumerate(spoken[example][rank])
                if is_said
            ]
            if alive[example][rank]:
                found.append(grounded(said, scores[example][rank]))
        captions.append(found)
    return captions
