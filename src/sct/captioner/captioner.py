"""The product: load a bundle, caption images or regions, detect regions."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sct.captioner.bundle import load_bundle
from sct.captioner.candidates import CandidateRanker, expand_candidates
from sct.captioner.collate import collate_requests
from sct.captioner.cuda_graph import CudaGraphSearch
from sct.captioner.encode import as_image, encode_requests
from sct.captioner.fits import FitCalibration, FitScorer, prefer_fitting
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.grounding import AttentionRecorder, build_grounded_captions, trace_attention
from sct.captioner.ordering import restore_input_order, sort_requests
from sct.captioner.plan import BatchPlan, Planner
from sct.captioner.requests import (
    IMAGE_BATCH_SIZE,
    CaptionOptions,
    ImageInput,
    ImageRequest,
    ProposalSelection,
    RegionRequest,
    decoding_batch_size,
)
from sct.decoding import ConstraintConfig, Decoded, SearchConfig, beam_search
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.models.inputs import ControlBatch
from sct.models.interface import CaptionModel
from sct.models.linear import DENSE, INT8, check_int8
from sct.regions.parsing import RegionsLike, as_control
from sct.regions.records import Control, Region
from sct.sorting.sorter import ControlSorter
from sct.vision.interface import VisionEncoder
from sct.vision.layout import LayoutEncoder

Precision = Literal["float32", "float16", "int8"]
_MAX_GRAPH_SEARCHES = 8
"""Search configs with captured CUDA graphs that are kept (LRU)."""


class Captioner:
    """Captions images under control: model, vocabulary, vision encoder and sorter; made by ``sct.load``."""

    def __init__(
        self,
        model: CaptionModel,
        vocabulary: Vocabulary,
        *,
        encoder: LayoutEncoder | None = None,
        sorter: ControlSorter | None = None,
        vision: VisionEncoder | None = None,
        nouns: Collection[str] = (),
        noun_table: NounTable | None = None,
        length_penalty: float = 0.0,
        fits: FitCalibration | None = None,
        device: str = "cpu",
        precision: Precision = "float32",
        folder: Path | None = None,
    ) -> None:
        """Prepare the model for inference: ``float16`` is for GPUs, ``int8`` for CPUs; the sorter stays on the CPU.

        ``length_penalty`` applies where options give none. ``nouns``, by default those of ``noun_table``, tell where
        chunks end; the table and ``fits`` are needed for ``GroundedChunk.fits``. ``folder`` is that of the bundle, if
        it is one.
        """
        self.folder = folder
        self.vocabulary = vocabulary
        self.encoder = encoder
        self._nouns = frozenset(nouns or (() if noun_table is None else noun_table.nouns))
        self.sorter = sorter
        self.vision = vision
        self.length_penalty = length_penalty
        if vision is not None and vision.feature_size != model.config.feature_size:
            raise InputError(
                f"the vision encoder outputs {vision.feature_size}-d features, the model expects "
                f"{model.config.feature_size}-d: use the encoder it was trained with"
            )
        self.device = check_device(device)
        if precision not in get_args(Precision):
            raise InputError(f"precision is {precision!r}, expected {', '.join(get_args(Precision))}")
        if precision == "float16" and self.device.type == "cpu":
            raise InputError("float16 is slower than float32 on a CPU: use float32 or int8")
        if precision == "int8" and self.device.type != "cpu":
            raise InputError(f"int8 is for CPUs, got device {device}: use float32 or float16")
        if precision == "int8":
            check_int8()
        dtype = torch.float16 if precision == "float16" else torch.float32
        self.config = model.config
        self._decoder = model.to(self.device).for_inference(INT8 if precision == "int8" else DENSE, dtype)
        self._graph_searches: dict[SearchConfig, CudaGraphSearch] = {}
        classifier = None if vision is None else vision.classifier
        self.fit_scorer: FitScorer | None = None
        if fits is not None and noun_table is not None and classifier is not None:
            self.fit_scorer = FitScorer(classifier, vocabulary, noun_table, fits, self.device)
        self._ranker = None if classifier is None or not classifier.words else CandidateRanker(classifier)
        self._planner = Planner(vocabulary, self._nouns, noun_table, self.fit_scorer, self.device)

    def __repr__(self) -> str:
        """Return the model's variant and sizes, its parts and the device."""
        parts = [name for name in ("vision", "encoder", "sorter") if getattr(self, name) is not None]
        return (
            f"Captioner({self.config.variant!r}, {len(self.vocabulary):,} words, "
            f"{self.config.feature_size}-d features, with {', '.join(parts) or 'neither vision encoder nor sorter'}, "
            f"on {self.device})"
        )

    def caption(
        self,
        image: ImageInput,
        regions: RegionsLike | None = None,
        *,
        ordered: bool = True,
        relative: bool = False,
        selection: ProposalSelection | None = None,
        options: CaptionOptions | None = None,
    ) -> GroundedCaption:
        """Return the best caption of an image that describes the given regions.

        An item of ``regions`` is a box in pixels, a region, or a list of them for one noun chunk; a
        ``supervision.Detections`` has a box per row. With ``ordered=False`` the sorter orders them; with
        ``relative=True`` boxes are fractions of the image. Without ``regions`` they are detected, selected by
        ``selection`` and ordered by the sorter or, in a bundle without one, by score.
        """
        control = None if regions is None else as_control(regions, ordered=ordered, relative=relative)
        [captions] = self.caption_images([ImageRequest(image, control, selection or ProposalSelection())], options)
        return _best(captions)

    def caption_images(
        self, requests: Sequence[ImageRequest], options: CaptionOptions | None = None
    ) -> list[list[GroundedCaption]]:
        """Return the ``n_best`` captions of each request, best first.

        Images are loaded and encoded in batches of ``IMAGE_BATCH_SIZE``.
        """
        vision, captions = self._require_vision(), []
        for start in range(0, len(requests), IMAGE_BATCH_SIZE):
            encoded = encode_requests(
                vision, requests[start : start + IMAGE_BATCH_SIZE], has_sorter=self.sorter is not None
            )
            captions += self.caption_batch(encoded, options)
        return captions

    def detect(self, image: ImageInput, limit: int = 30) -> tuple[Region, ...]:
        """Return at most ``limit`` proposals of an image, highest score first."""
        [proposals] = self.detect_images([image], limit)
        return proposals

    def detect_images(self, images: Sequence[ImageInput], limit: int = 30) -> list[tuple[Region, ...]]:
        """Return the proposals of several images."""
        return detect_regions(self._require_vision(), images, limit)

    def caption_regions(
        self,
        control: Control,
        detections: Sequence[Region] = (),
        options: CaptionOptions | None = None,
        *,
        image_size: tuple[float, float] | None = None,
    ) -> GroundedCaption:
        """Return the best caption of regions with features; an unordered control needs ``image_size``."""
        [captions] = self.caption_batch([RegionRequest(control, tuple(detections), image_size)], options)
        return _best(captions)

    def caption_batch(
        self, requests: Sequence[RegionRequest], options: CaptionOptions | None = None
    ) -> list[list[GroundedCaption]]:
        """Return the ``n_best`` captions of each request, best first; controls may differ in size."""
        if not requests:
            return []
        options = options or CaptionOptions()
        if self._ranker is None or not any(request.candidates for request in requests):
            return self._caption_requests(requests, options)
        given = [request for request in requests if not request.candidates]
        chosen = [request for request in requests if request.candidates]
        of_given = iter(self._caption_requests(given, options) if given else ())
        of_chosen = self._caption_candidates(self._ranker, chosen, options)
        return [next(of_chosen if request.candidates else of_given) for request in requests]

    def _caption_candidates(
        self, ranker: CandidateRanker, requests: Sequence[RegionRequest], options: CaptionOptions
    ) -> Iterator[list[GroundedCaption]]:
        """Caption all candidate controls and rank the captions of each request."""
        expanded, narrow = expand_candidates(requests, options)
        size = decoding_batch_size(self.device)
        slices = (expanded[start : start + size] for start in range(0, len(expanded), size))
        captions = [caption for some in slices for caption in self._caption_requests(some, narrow)]
        return ranker.merge(requests, captions, options)

    def _caption_requests(
        self, requests: Sequence[RegionRequest], options: CaptionOptions
    ) -> list[list[GroundedCaption]]:
        """Caption the control of each request."""
        ordered, orders = sort_requests(requests, self.sorter)
        plan = self._planner.plan(ordered, options, whole_chunks=self.resolve_whole_chunks(options))
        batch = collate_requests([self._planner.rename_features(request) for request in ordered], self.config)
        captions = self._caption_planned(batch, options, plan)
        return [
            [
                replace(caption, control=request.control)
                if order is None
                else restore_input_order(caption, order, request.control)
                for caption in found
            ]
            for request, found, order in zip(requests, captions, orders, strict=True)
        ]

    def caption_control_batch(
        self, batch: ControlBatch, options: CaptionOptions | None = None
    ) -> list[list[GroundedCaption]]:
        """Return the ``n_best`` captions of each control of a collated batch, best first; chunks have no ``fits``."""
        options = options or CaptionOptions()
        return self._caption(batch, options, BatchPlan(None, (), None))

    def _caption_planned(
        self, batch: ControlBatch, options: CaptionOptions, plan: BatchPlan
    ) -> list[list[GroundedCaption]]:
        """Caption a batch and add fits; with ``min_fit``, captions all of whose nouns fit come first."""
        if plan.fits is None:
            return self._caption(batch, options, plan)
        whole_beam = replace(options, n_best=options.beam_size) if options.min_fit else options
        captions = [
            [self._planner.add_fits(caption, fits) for caption in found]
            for found, fits in zip(self._caption(batch, whole_beam, plan), plan.fits, strict=True)
        ]
        if not options.min_fit:
            return captions
        return [prefer_fitting(found, options.min_fit)[: options.n_best] for found in captions]

    def _caption(self, batch: ControlBatch, options: CaptionOptions, plan: BatchPlan) -> list[list[GroundedCaption]]:
        batch = batch.to(self.device)
        recorder = AttentionRecorder(self._decoder) if self._decoder.has_attention else None
        decoded = self.search(batch, options, recorder=recorder, plan=plan)
        log_probs = self.log_probs(decoded, options) if plan.slots is None else decoded.log_probs()
        trace = None
        if recorder is not None:
            examples, n_best, _ = decoded.words.shape
            max_length = int(decoded.token_mask.sum(-1).max())
            if recorder.num_steps and not (recorder.gate_sees_word and options.reference_search):
                trace = recorder.trace(decoded, max_length)
            else:
                trace = trace_attention(
                    self._decoder,
                    batch,
                    torch.arange(examples, device=self.device).repeat_interleave(n_best),
                    decoded.words.flatten(0, 1)[:, :max_length],
                    decoded.shifts.flatten(0, 1)[:, :max_length],
                    SearchConfig().bos,
                )
        return build_grounded_captions(decoded, trace, batch, self.vocabulary, log_probs, self._nouns)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        license: str = "other",  # noqa: A002  the Hub's word
        datasets: Sequence[str] = (),
        private: bool = False,
        token: str | None = None,
    ) -> str:
        """Upload the bundle that this captioner was loaded from to the Hugging Face Hub; see ``push_bundle``."""
        from sct.captioner.publish import push_bundle  # noqa: PLC0415

        if self.folder is None:
            raise InputError(
                "the captioner was not loaded from a bundle: save it (save_bundle) and load that (sct.load)"
            )
        return push_bundle(self.folder, repo_id, license=license, datasets=datasets, private=private, token=token)

    @property
    def has_latents(self) -> bool:
        """Whether captions depend on a discrete latent (AG-CVAE, POS)."""
        return self._decoder.has_latents

    @property
    def default_no_repeat_ngram_size(self) -> int:
        """``no_repeat_ngram_size`` where options give none: off for the authors' weights, which use their search."""
        return 0 if self.config.mode == "reference" else 2

    def resolve_no_repeat_ngram_size(self, options: CaptionOptions) -> int:
        """N-gram size of a search: that of the options or else the default; the authors' search has none."""
        if options.no_repeat_ngram_size is not None:
            return options.no_repeat_ngram_size
        return 0 if options.reference_search else self.default_no_repeat_ngram_size

    def resolve_whole_chunks(self, options: CaptionOptions) -> bool:
        """Whether a search keeps noun chunks whole: by the options, or else if it can and is not the authors'."""
        can = self._planner.kinds is not None and self._decoder.has_attention
        if options.whole_chunks is None:
            return can and not options.reference_search and self.config.mode != "reference"
        if options.whole_chunks and not can:
            raise InputError("got whole_chunks for a bundle without nouns or without a gate: leave it out")
        return options.whole_chunks

    def resolve_length_penalty(self, options: CaptionOptions) -> float:
        """Length penalty of a search: that of the options or else of the bundle; the authors' search has none."""
        if options.length_penalty is not None:
            return options.length_penalty
        return 0.0 if options.reference_search else self.length_penalty

    def log_probs(self, decoded: Decoded, options: CaptionOptions) -> Float[Tensor, "examples n_best"]:
        """Joint log-probabilities of decoded captions, without the length penalty of their scores."""
        if not self.resolve_length_penalty(options):
            return decoded.scores
        return decoded.log_probs()

    def search(
        self,
        batch: ControlBatch,
        options: CaptionOptions | None = None,
        *,
        latents: Int[Tensor, " examples"] | None = None,
        recorder: AttentionRecorder | None = None,
        plan: BatchPlan | None = None,
    ) -> Decoded:
        """Decode token ids only, without groundings.

        ``latents`` are for models with ``has_latents``; 0 is the most likely. ``recorder`` sees every step, unless the
        search is a CUDA graph. ``plan`` says what to say on which region set.
        """
        options = options or CaptionOptions()
        plan = plan or BatchPlan(None, (), None)
        batch = batch.to(self.device)
        on_gpu = self.device.type == "cuda"
        config = SearchConfig(
            max_length=options.max_length,
            beam_size=options.beam_size,
            n_best=options.n_best,
            length_penalty=self.resolve_length_penalty(options),
            early_stop=not on_gpu,
        )
        constraints = ConstraintConfig(
            cover=options.cover,
            min_length=options.min_length,
            no_repeat_ngram_size=self.resolve_no_repeat_ngram_size(options),
            banned_words=self._planner.word_ids(self._planner.banned_words(options)),
            required_words=self._planner.word_ids(options.required_words),
        ).build(
            config,
            batch.num_slots,
            self.device,
            kinds=self._planner.kinds if self.resolve_whole_chunks(options) else None,
            slots=plan.slots,
            waived=self._planner.waived(plan, options, self.device),
        )
        is_plain = constraints is None and not config.length_penalty
        if options.reference_search and not is_plain:
            raise InputError(
                "the authors' search has no constraints and no length_penalty: leave them out, or reference_search"
            )
        if options.reference_search or (self.config.mode == "reference" and is_plain):
            # The authors' weights are decoded with the authors' search.
            config = replace(config, freeze_finished=False, early_stop=False)
        if latents is None and on_gpu and constraints is None:
            return self._cuda_graph_search(config)(batch)
        state = self._decoder.init_state(batch, None if latents is None else latents.to(self.device))
        return beam_search(recorder or self._decoder, state, config, constraints)

    def _require_vision(self) -> VisionEncoder:
        if self.vision is None:
            raise InputError(
                "the bundle has no vision encoder: use one that has, such as the default (sct.load()), or give regions "
                "with features of the kind it was trained with (Captioner.caption_regions)"
            )
        return self.vision

    def _cuda_graph_search(self, config: SearchConfig) -> CudaGraphSearch:
        """The search of this config; the least recently used ones are dropped, as users may vary length_penalty."""
        search = self._graph_searches.pop(config, None) or CudaGraphSearch(self._decoder, config)
        self._graph_searches[config] = search
        if len(self._graph_searches) > _MAX_GRAPH_SEARCHES:
            del self._graph_searches[next(iter(self._graph_searches))]
        return search


def detect_regions(vision: VisionEncoder, images: Sequence[ImageInput], limit: int) -> list[tuple[Region, ...]]:
    """Return the proposals of several images by a vision encoder."""
    if limit < 1:
        raise InputError(f"limit is {limit}, expected at least 1")
    proposals: list[tuple[Region, ...]] = []
    for start in range(0, len(images), IMAGE_BATCH_SIZE):
        encoded = vision.encode([as_image(image) for image in images[start : start + IMAGE_BATCH_SIZE]])
        proposals += [tuple(image.proposals[:limit]) for image in encoded]
    return proposals


def load(
    folder: str | Path = "default",
    *,
    device: str = "cpu",
    precision: Precision = "float32",
    revision: str | None = None,
    allow_download: bool = False,
    fits: FitCalibration | None = None,
) -> Captioner:
    """Load a bundle: a folder, "default", which ships with the package, or "user/name" on the Hugging Face Hub.

    Only with ``allow_download`` a bundle that is not in the Hub's cache, and the Hub models that a bundle names, are
    downloaded. ``revision`` is a branch, tag or commit of a bundle on the Hub. ``fits`` replaces the bundle's
    calibration of fits.
    """
    torch_device = check_device(device)  # before anything is loaded
    bundle = load_bundle(Path(folder), revision=revision, allow_download=allow_download)
    return Captioner(
        bundle.model,
        bundle.vocabulary,
        encoder=bundle.encoder,
        sorter=bundle.sorter,
        vision=None if bundle.vision is None else bundle.vision.to(torch_device),
        noun_table=bundle.nouns,
        length_penalty=bundle.length_penalty,
        fits=fits or bundle.fits,
        device=device,
        precision=precision,
        folder=bundle.folder,
    )


def check_device(name: str) -> torch.device:
    """Raise unless a device is the CPU, or a GPU that is there."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device is {name!r}, expected cpu or cuda") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        available = "cpu or cuda" if torch.cuda.is_available() else "cpu"
        raise InputError(f"device {name!r} is not available, expected {available}")
    return device


def _best(captions: Sequence[GroundedCaption]) -> GroundedCaption:
    if not captions:
        raise InputError("no caption satisfies all constraints: relax them, or use a larger beam_size")
    return captions[0]
