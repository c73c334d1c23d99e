"""The public face: load a bundle, hand it a control, get grounded captions."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.baselines.plain_speaker import PlainSpeaker
from sct.caption_requests import CaptionOptions, CaptionRequest, PictureRequest, PictureSource
from sct.choosing import Choice
from sct.decoding import Decoded, Guarantees, Settings, beam_search
from sct.errors import InputError
from sct.found_captions import found_captions
from sct.grounded_caption import ChosenOrder, GroundedCaption, with_order
from sct.language.vocabulary import Vocabulary
from sct.looking import look_at, opened
from sct.model.bundle import load_bundle
from sct.model.explain import explain
from sct.model.fused import FusedCaptioner
from sct.model.graphed import GraphedSearch
from sct.model.inputs import ControlInputs
from sct.model.products import DENSE, INT8, check_int8
from sct.model.system import CaptioningSystem
from sct.regions import Control, Region
from sct.regions.layout import LayoutEncoder
from sct.regions.pointing import Pointing, control_of
from sct.regions.vision import Vision
from sct.request_inputs import request_inputs
from sct.sorting import SetSorter

Precision = Literal["float32", "float16", "int8"]
_PICTURES_AT_ONCE = 8
_MOST_SEARCHES = 8
"""Ways of searching that a GPU keeps recordings of, which have memory of their own."""

__all__ = ["CaptionOptions", "CaptionRequest", "Captioner", "PictureRequest", "Precision", "load"]


class Captioner:
    """Captions pictures under control; made by ``sct.load``."""

    def __init__(
        self,
        network: CaptioningSystem,
        vocabulary: Vocabulary,
        *,
        encoder: LayoutEncoder | None = None,
        sorter: SetSorter | None = None,
        vision: Vision | None = None,
        nouns: Collection[str] = (),
        length_power: float = 0.0,
        device: str = "cpu",
        precision: Precision = "float32",
    ) -> None:
        """Lay the network out for a device: ``float16`` is for GPUs, ``int8`` for CPUs; a sorter stays on the CPU.

        Captions are ranked by score / length ** ``length_power`` wherever options do not say otherwise. Where a chunk
        ends is told by ``nouns`` as well.
        """
        self.vocabulary = vocabulary
        self.encoder = encoder
        self._nouns = frozenset(nouns)
        self.sorter = sorter
        self.vision = vision
        self.length_power = length_power
        if vision is not None and vision.feature_size != network.config.feature_size:
            raise InputError(
                f"what sees gives features of {vision.feature_size} numbers, but the captioner was trained with "
                f"{network.config.feature_size}: wanted the two that belong together"
            )
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
        self._speaker = network.to(self.device).speaker(INT8 if precision == "int8" else DENSE, dtype)
        self._graphed: dict[Settings, GraphedSearch] = {}

    def caption(
        self,
        picture: PictureSource,
        regions: Pointing | None = None,
        *,
        ordered: bool = True,
        choice: Choice | None = None,
        options: CaptionOptions | None = None,
    ) -> GroundedCaption:
        """The best caption of a picture that talks about the regions a user points at.

        An item of ``regions`` is a box, a region, or a list of them that one noun chunk is to talk about. Without
        ``ordered`` the sorter puts them in order. Without ``regions`` they are detected, chosen by ``choice`` and put
        in order, by the sorter or, in a bundle that has none, the best first.
        """
        control = None if regions is None else control_of(regions, ordered=ordered)
        [found] = self.caption_pictures([PictureRequest(picture, control, choice or Choice())], options)
        return _best(found)

    def caption_pictures(
        self, requests: Sequence[PictureRequest], options: CaptionOptions | None = None
    ) -> list[list[GroundedCaption]]:
        """The ``n_best`` captions of each request, best first.

        A few pictures are in memory at once, however many are asked about.
        """
        vision, found = self._eyes(), []
        for start in range(0, len(requests), _PICTURES_AT_ONCE):
            some = requests[start : start + _PICTURES_AT_ONCE]
            found += self.caption_batch(look_at(vision, some, can_sort=self.sorter is not None), options)
        return found

    def detect(self, picture: PictureSource, limit: int = 30) -> tuple[Region, ...]:
        """The regions of a picture that are worth talking about, at most ``limit``, the best first."""
        [found] = self.detect_pictures([picture], limit)
        return found

    def detect_pictures(self, pictures: Sequence[PictureSource], limit: int = 30) -> list[tuple[Region, ...]]:
        """The same for several pictures."""
        if limit < 1:
            raise InputError(f"limit is {limit}: wanted at least 1 region")
        vision, found = self._eyes(), []
        for start in range(0, len(pictures), _PICTURES_AT_ONCE):
            some = [opened(picture) for picture in pictures[start : start + _PICTURES_AT_ONCE]]
            found += [sight.proposals[:limit] for sight in vision.look(some, [()] * len(some))]
        return found

    def _eyes(self) -> Vision:
        if self.vision is None:
            raise InputError(
                "the bundle cannot see pictures: take one that can, such as the default one (sct.load()), or give it "
                "regions with features of the kind it was trained with (Captioner.caption_regions)"
            )
        return self.vision

    def caption_regions(
        self,
        control: Control,
        detections: Sequence[Region] = (),
        options: CaptionOptions | None = None,
        *,
        image_size: tuple[float, float] | None = None,
    ) -> GroundedCaption:
        """The best caption for regions that have features; ``image_size`` is needed for a control without order."""
        [found] = self.caption_batch([CaptionRequest(control, tuple(detections), image_size)], options)
        return _best(found)

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
        captions = self.caption_inputs(request_inputs(ordered, self.config), options)
        return [
            [replace(with_order(caption, order) if order else caption, control=request.control) for caption in found]
            for request, found, order in zip(requests, captions, orders, strict=True)
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
        log_probs = self.log_probs(decoded, options)
        examples, n_best, _ = decoded.words.shape
        if not isinstance(self._speaker, FusedCaptioner):
            return found_captions(decoded, None, inputs, self.vocabulary, log_probs, self._nouns)
        longest = int(decoded.spoken.sum(-1).max())
        explanation = explain(
            self._speaker,
            inputs,
            torch.arange(examples, device=self.device).repeat_interleave(n_best),
            decoded.words.flatten(0, 1)[:, :longest],
            decoded.shifts.flatten(0, 1)[:, :longest],
            Settings().begin,
        )
        return found_captions(decoded, explanation, inputs, self.vocabulary, log_probs, self._nouns)

    @property
    def has_manners(self) -> bool:
        """Whether it can caption the same in several manners, as systems made for diverse captions do."""
        return isinstance(self._speaker, PlainSpeaker) and self._speaker.has_manners

    @property
    def no_repeat_for_people(self) -> int:
        """The ``no_repeat`` of a caption that is to be read: no two words in a row are said twice.

        The library's own default is off, so that evaluation measures a search without guarantees. It is off here too
        for the authors' weights, which any guarantee would part from the authors' search.
        """
        return 0 if self.config.mode == "reference" else 2

    def length_power_of(self, options: CaptionOptions) -> float:
        """By which power of their length captions are ranked: as asked for, else by the bundle's own.

        The authors' search knows none, so where it was asked for the bundle's own does not hold.
        """
        if options.length_power is not None:
            return options.length_power
        return 0.0 if options.reference_search else self.length_power

    def log_probs(self, decoded: Decoded, options: CaptionOptions) -> Float[Tensor, "examples n_best"]:
        """How likely captions are that a search with these options found, whatever they were ranked by."""
        if not self.length_power_of(options):
            return decoded.scores
        return (decoded.word_log_probs + decoded.shift_log_probs).sum(-1)

    def search(
        self,
        inputs: ControlInputs,
        options: CaptionOptions | None = None,
        *,
        manners: Int[Tensor, " examples"] | None = None,
    ) -> Decoded:
        """Word ids alone, for who needs many captions and no groundings.

        ``manners`` are for captioners that have several (``has_manners``); 0 is the likeliest.
        """
        options = options or CaptionOptions()
        inputs = inputs.to(self.device)
        on_gpu = self.device.type == "cuda"
        settings = Settings(
            max_length=options.max_length,
            beam_size=options.beam_size,
            n_best=options.n_best,
            length_power=self.length_power_of(options),
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
        can_follow = constraints is None and not settings.length_power
        if options.reference_search and not can_follow:
            raise InputError("the authors' search knows no guarantees and no length_power: leave these or it out")
        if options.reference_search or (self.config.mode == "reference" and can_follow):
            # Who comes with the authors' weights gets the authors' search as well.
            settings = replace(settings, freeze=False, early_stop=False)
        if manners is not None:
            if not isinstance(self._speaker, PlainSpeaker):
                raise InputError(f"the captioner {self.config.variant!r} has one manner of speaking: name no others")
            begun = self._speaker.begin_in(inputs, manners.to(self.device))
            return beam_search(self._speaker, begun, settings, constraints)
        if on_gpu and constraints is None:
            return self._recorded(settings)(inputs)
        return beam_search(self._speaker, self._speaker.begin(inputs), settings, constraints)

    def _recorded(self, settings: Settings) -> GraphedSearch:
        """A search on a GPU; those of the last settings are kept, since whoever asks may choose any length power."""
        search = self._graphed.pop(settings, None) or GraphedSearch(self._speaker, settings)
        self._graphed[settings] = search  # the last one used stands last
        if len(self._graphed) > _MOST_SEARCHES:
            del self._graphed[next(iter(self._graphed))]
        return search

    def _ids(self, words: Sequence[str]) -> tuple[int, ...]:
        for word in words:
            if word not in self.vocabulary.ids:
                raise InputError(
                    f"word {word!r} is not in the vocabulary of {len(self.vocabulary)} words: wanted one it has"
                )
        return tuple(self.vocabulary.ids[word] for word in words)


def _checked_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r} is unknown: wanted cpu or cuda") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"device {name!r} is not at hand: wanted cpu{' or cuda' if torch.cuda.is_available() else ''}")
    return device


def load(folder: str | Path = "default", *, device: str = "cpu", precision: Precision = "float32") -> Captioner:
    """Load a bundle; "default" is the one that ships."""
    home = _checked_device(device)  # before anything is loaded
    bundle = load_bundle(Path(folder))
    return Captioner(
        bundle.captioner,
        bundle.vocabulary,
        encoder=bundle.encoder,
        sorter=bundle.sorter,
        vision=None if bundle.vision is None else bundle.vision.to(home),
        nouns=() if bundle.nouns is None else bundle.nouns.nouns,
        length_power=bundle.length_power,
        device=device,
        precision=precision,
    )


def _best(captions: Sequence[GroundedCaption]) -> GroundedCaption:
    if not captions:
        raise InputError("no caption holds to all that was asked of it: ask for less, or for a larger beam_size")
    return captions[0]


def _is_set(request: CaptionRequest) -> bool:
    return not request.control.ordered


def _put_in_order(request: CaptionRequest, order: ChosenOrder) -> CaptionRequest:
    sets = request.control.region_sets
    return replace(request, control=Control(tuple(sets[number] for number in order.sets), ordered=True))
