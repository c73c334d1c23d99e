"""The public face: load a bundle, hand it a control, get grounded captions."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.captioner.bundle import load_bundle
from sct.captioner.collate import collate_requests
from sct.captioner.cuda_graph import CudaGraphSearch
from sct.captioner.encode import look_at, opened
from sct.captioner.grounded_caption import GroundedCaption, RegionOrder, restore_input_order
from sct.captioner.grounding import build_grounded_captions, trace_attention
from sct.captioner.requests import CaptionOptions, ImageRequest, ImageSource, ProposalSelection, RegionRequest
from sct.decoding import ConstraintConfig, Decoded, SearchConfig, beam_search
from sct.errors import InputError
from sct.language.vocabulary import Vocabulary
from sct.models.inputs import ControlBatch
from sct.models.interface import CaptionModel
from sct.models.linear import DENSE, INT8, check_int8
from sct.regions import Control, Region
from sct.regions.parsing import RegionsLike, as_control
from sct.sorting import ControlSorter
from sct.vision.interface import Vision
from sct.vision.layout import LayoutEncoder

Precision = Literal["float32", "float16", "int8"]
_IMAGES_AT_ONCE = 8
_MOST_SEARCHES = 8
"""Ways of searching that a GPU keeps recordings of, which have memory of their own."""

__all__ = ["CaptionOptions", "Captioner", "ImageRequest", "Precision", "RegionRequest", "load"]


class Captioner:
    """Captions images under control; made by ``sct.load``."""

    def __init__(
        self,
        network: CaptionModel,
        vocabulary: Vocabulary,
        *,
        encoder: LayoutEncoder | None = None,
        sorter: ControlSorter | None = None,
        vision: Vision | None = None,
        nouns: Collection[str] = (),
        length_penalty: float = 0.0,
        device: str = "cpu",
        precision: Precision = "float32",
    ) -> None:
        """Lay the network out for a device: ``float16`` is for GPUs, ``int8`` for CPUs; a sorter stays on the CPU.

        Captions are ranked by score / length ** ``length_penalty`` wherever options do not say otherwise. Where a chunk
        ends is told by ``nouns`` as well.
        """
        self.vocabulary = vocabulary
        self.encoder = encoder
        self._nouns = frozenset(nouns)
        self.sorter = sorter
        self.vision = vision
        self.length_penalty = length_penalty
        if vision is not None and vision.feature_size != network.config.feature_size:
            raise InputError(
                f"what sees gives features of {vision.feature_size} numbers, but the captioner was trained with "
                f"{network.config.feature_size}: expected the two that belong together"
            )
        self.device = _checked_device(device)
        if precision not in get_args(Precision):
            raise InputError(f"precision {precision!r}: expected {', '.join(get_args(Precision))}")
        if precision == "float16" and self.device.type == "cpu":
            raise InputError("float16 is slower than float32 on a CPU: expected float32 or int8 there")
        if precision == "int8" and self.device.type != "cpu":
            raise InputError(f"int8 weights are for CPUs, not for {device}: expected float32 or float16 there")
        if precision == "int8":
            check_int8()
        dtype = torch.float16 if precision == "float16" else torch.float32
        self.config = network.config
        self._decoder = network.to(self.device).for_inference(INT8 if precision == "int8" else DENSE, dtype)
        self._graphed: dict[SearchConfig, CudaGraphSearch] = {}

    def caption(
        self,
        image: ImageSource,
        regions: RegionsLike | None = None,
        *,
        ordered: bool = True,
        choice: ProposalSelection | None = None,
        options: CaptionOptions | None = None,
    ) -> GroundedCaption:
        """The best caption of an image that talks about the regions a user points at.

        An item of ``regions`` is a box, a region, or a list of them that one noun chunk is to talk about. Without
        ``ordered`` the sorter puts them in order. Without ``regions`` they are detected, chosen by ``choice`` and put
        in order, by the sorter or, in a bundle that has none, the best first.
        """
        control = None if regions is None else as_control(regions, ordered=ordered)
        [found] = self.caption_images([ImageRequest(image, control, choice or ProposalSelection())], options)
        return _best(found)

    def caption_images(
        self, requests: Sequence[ImageRequest], options: CaptionOptions | None = None
    ) -> list[list[GroundedCaption]]:
        """The ``n_best`` captions of each request, best first.

        A few images are in memory at once, however many are asked about.
        """
        vision, found = self._eyes(), []
        for start in range(0, len(requests), _IMAGES_AT_ONCE):
            some = requests[start : start + _IMAGES_AT_ONCE]
            found += self.caption_batch(look_at(vision, some, can_sort=self.sorter is not None), options)
        return found

    def detect(self, image: ImageSource, limit: int = 30) -> tuple[Region, ...]:
        """The regions of an image that are worth talking about, at most ``limit``, the best first."""
        [found] = self.detect_images([image], limit)
        return found

    def detect_images(self, images: Sequence[ImageSource], limit: int = 30) -> list[tuple[Region, ...]]:
        """The same for several images."""
        if limit < 1:
            raise InputError(f"limit is {limit}: expected at least 1 region")
        vision, found = self._eyes(), []
        for start in range(0, len(images), _IMAGES_AT_ONCE):
            some = [opened(image) for image in images[start : start + _IMAGES_AT_ONCE]]
            found += [sight.proposals[:limit] for sight in vision.look(some, [()] * len(some))]
        return found

    def _eyes(self) -> Vision:
        if self.vision is None:
            raise InputError(
                "the bundle cannot see images: take one that can, such as the default one (sct.load()), or give it "
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
        [found] = self.caption_batch([RegionRequest(control, tuple(detections), image_size)], options)
        return _best(found)

    def caption_batch(
        self, requests: Sequence[RegionRequest], options: CaptionOptions | None = None
    ) -> list[list[GroundedCaption]]:
        """The ``n_best`` captions of each request, best first; images and controls may differ in size."""
        if not requests:
            return []
        orders = self._orders(requests)
        ordered = [
            request if order is None else _put_in_order(request, order)
            for request, order in zip(requests, orders, strict=True)
        ]
        captions = self.caption_inputs(collate_requests(ordered, self.config), options)
        return [
            [
                replace(restore_input_order(caption, order) if order else caption, control=request.control)
                for caption in found
            ]
            for request, found, order in zip(requests, captions, orders, strict=True)
        ]

    def _orders(self, requests: Sequence[RegionRequest]) -> list[RegionOrder | None]:
        """What the sorter chooses for each control that is a set; one set is in order whatever anybody thinks."""
        found: list[RegionOrder | None] = [
            RegionOrder((0,), 1.0) if _is_set(request) and len(request.control.region_sets) == 1 else None
            for request in requests
        ]
        rows = [row for row, request in enumerate(requests) if _is_set(request) and found[row] is None]
        if not rows:
            return found
        if self.sorter is None:
            raise InputError(
                "the control is a set, and the bundle has no sorter to put it in order: give the regions in order, or "
                "take a bundle with a sorter (sct train recipes/sorter/*.toml from=BUNDLE makes one)"
            )
        sizes = [size for row in rows if (size := requests[row].image_size) is not None]
        if len(sizes) < len(rows):
            raise InputError(
                "the control is a set, and the size of its image is not known: give image_size=(width, height), so "
                "that the sorter knows where in the image a region is"
            )
        orders = self.sorter.orders([requests[row].control for row in rows], sizes)
        none: list[float | None] = [None] * len(rows)
        probabilities = none if orders.probability is None else orders.probability.tolist()
        for row, order, probability in zip(rows, orders.lists(), probabilities, strict=True):
            found[row] = RegionOrder(tuple(order), probability)
        return found

    def caption_inputs(
        self, inputs: ControlBatch, options: CaptionOptions | None = None
    ) -> list[list[GroundedCaption]]:
        """The ``n_best`` captions of each control, best first, from features that are packed already."""
        options = options or CaptionOptions()
        inputs = inputs.to(self.device)
        decoded = self.search(inputs, options)
        log_probs = self.log_probs(decoded, options)
        examples, n_best, _ = decoded.words.shape
        if not self._decoder.has_attention:
            return build_grounded_captions(decoded, None, inputs, self.vocabulary, log_probs, self._nouns)
        longest = int(decoded.token_mask.sum(-1).max())
        explanation = trace_attention(
            self._decoder,
            inputs,
            torch.arange(examples, device=self.device).repeat_interleave(n_best),
            decoded.words.flatten(0, 1)[:, :longest],
            decoded.shifts.flatten(0, 1)[:, :longest],
            SearchConfig().bos,
        )
        return build_grounded_captions(decoded, explanation, inputs, self.vocabulary, log_probs, self._nouns)

    @property
    def has_latents(self) -> bool:
        """Whether it can caption the same in several latents, as systems made for diverse captions do."""
        return self._decoder.has_latents

    @property
    def default_no_repeat_ngram_size(self) -> int:
        """The ``no_repeat_ngram_size`` of a caption that is to be read: no two words in a row are said twice.

        The library's own default is off, so that evaluation measures a search without guarantees. It is off here too
        for the authors' weights, which any guarantee would part from the authors' search.
        """
        return 0 if self.config.mode == "reference" else 2

    def length_power_of(self, options: CaptionOptions) -> float:
        """By which power of their length captions are ranked: as asked for, else by the bundle's own.

        The authors' search knows none, so where it was asked for the bundle's own does not hold.
        """
        if options.length_penalty is not None:
            return options.length_penalty
        return 0.0 if options.reference_search else self.length_penalty

    def log_probs(self, decoded: Decoded, options: CaptionOptions) -> Float[Tensor, "examples n_best"]:
        """How likely captions are that a search with these options found, whatever they were ranked by."""
        if not self.length_power_of(options):
            return decoded.scores
        return (decoded.word_log_probs + decoded.shift_log_probs).sum(-1)

    def search(
        self,
        inputs: ControlBatch,
        options: CaptionOptions | None = None,
        *,
        latents: Int[Tensor, " examples"] | None = None,
    ) -> Decoded:
        """Word ids alone, for who needs many captions and no groundings.

        ``latents`` are for captioners that have several (``has_latents``); 0 is the likeliest.
        """
        options = options or CaptionOptions()
        inputs = inputs.to(self.device)
        on_gpu = self.device.type == "cuda"
        settings = SearchConfig(
            max_length=options.max_length,
            beam_size=options.beam_size,
            n_best=options.n_best,
            length_penalty=self.length_power_of(options),
            early_stop=not on_gpu,
        )
        guarantees = ConstraintConfig(
            cover=options.cover,
            min_length=options.min_length,
            no_repeat_ngram_size=options.no_repeat_ngram_size,
            banned_words=self._ids(options.banned),
            required_words=self._ids(options.required),
        )
        constraints = guarantees.constraints(settings, inputs.num_slots, self.device)
        can_follow = constraints is None and not settings.length_penalty
        if options.reference_search and not can_follow:
            raise InputError("the authors' search knows no guarantees and no length_penalty: leave these or it out")
        if options.reference_search or (self.config.mode == "reference" and can_follow):
            # Who comes with the authors' weights gets the authors' search as well.
            settings = replace(settings, freeze=False, early_stop=False)
        if latents is not None:
            state = self._decoder.init_state(inputs, latents.to(self.device))
            return beam_search(self._decoder, state, settings, constraints)
        if on_gpu and constraints is None:
            return self._recorded(settings)(inputs)
        return beam_search(self._decoder, self._decoder.init_state(inputs), settings, constraints)

    def _recorded(self, settings: SearchConfig) -> CudaGraphSearch:
        """A search on a GPU; those of the last settings are kept, since whoever asks may choose any length power."""
        search = self._graphed.pop(settings, None) or CudaGraphSearch(self._decoder, settings)
        self._graphed[settings] = search  # the last one used stands last
        if len(self._graphed) > _MOST_SEARCHES:
            del self._graphed[next(iter(self._graphed))]
        return search

    def _ids(self, words: Sequence[str]) -> tuple[int, ...]:
        for word in words:
            if word not in self.vocabulary.ids:
                raise InputError(
                    f"word {word!r} is not in the vocabulary of {len(self.vocabulary)} words: expected one it has"
                )
        return tuple(self.vocabulary.ids[word] for word in words)


def _checked_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r} is unknown: expected cpu or cuda") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise InputError(
            f"device {name!r} is not at hand: expected cpu{' or cuda' if torch.cuda.is_available() else ''}"
        )
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
        length_penalty=bundle.length_penalty,
        device=device,
        precision=precision,
    )


def _best(captions: Sequence[GroundedCaption]) -> GroundedCaption:
    if not captions:
        raise InputError("no caption holds to all that was asked of it: ask for less, or for a larger beam_size")
    return captions[0]


def _is_set(request: RegionRequest) -> bool:
    return not request.control.ordered


def _put_in_order(request: RegionRequest, order: RegionOrder) -> RegionRequest:
    sets = request.control.region_sets
    return replace(request, control=Control(tuple(sets[number] for number in order.sets), ordered=True))
