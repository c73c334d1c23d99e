"""The public face: load a bundle, hand it a control, get grounded captions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from sct.decoding import Decoded, Guarantees, Settings, beam_search
from sct.errors import InputError
from sct.grounded_caption import GroundedCaption, SpokenWord, grounded
from sct.language.vocabulary import UNKNOWN, Vocabulary
from sct.model.bundle import load_bundle
from sct.model.captioner import Captioner as CaptionNetwork
from sct.model.explain import Explanation, explain
from sct.model.fused import FusedCaptioner
from sct.model.graphed import GraphedSearch
from sct.model.inputs import ControlInputs, pack_controls
from sct.model.products import DENSE, INT8
from sct.regions import Control, Region

Precision = Literal["float32", "float16", "int8"]


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
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaptionRequest:
    """A control whose regions have features, and the image it is about."""

    control: Control
    detections: tuple[Region, ...] = ()
    """Regions of the whole image, whose mean feature describes it; without them the control's own do."""


class Captioner:
    """Captions pictures under control; made by ``sct.load``."""

    def __init__(
        self, network: CaptionNetwork, vocabulary: Vocabulary, *, device: str = "cpu", precision: Precision = "float32"
    ) -> None:
        """Lay the network out for a device: ``float16`` is for GPUs, ``int8`` for CPUs."""
        self.vocabulary = vocabulary
        self.device = torch.device(device)
        if precision == "float16" and self.device.type == "cpu":
            raise InputError("float16 is slower than float32 on a CPU: wanted float32 or int8 there")
        if precision == "int8" and self.device.type != "cpu":
            raise InputError(f"int8 weights are for CPUs, not for {device}: wanted float32 or float16 there")
        self._network = network.to(self.device).eval()
        dtype = torch.float16 if precision == "float16" else torch.float32
        self._fused = FusedCaptioner(self._network, INT8 if precision == "int8" else DENSE, dtype)
        self._graphed: dict[Settings, GraphedSearch] = {}

    def caption_regions(
        self, control: Control, detections: Sequence[Region] = (), options: CaptionOptions | None = None
    ) -> GroundedCaption:
        """The best caption for regions that have features."""
        [[best, *_]] = self.caption_batch([CaptionRequest(control, tuple(detections))], options or CaptionOptions())
        return best

    def caption_batch(self, requests: Sequence[CaptionRequest], options: CaptionOptions) -> list[list[GroundedCaption]]:
        """The ``n_best`` captions of each request, best first; images and controls may differ in size."""
        if not requests:
            return []
        inputs = self._inputs(requests)
        decoded = self._search(inputs, options)
        examples, n_best, _ = decoded.words.shape
        rows = torch.arange(examples, device=self.device).repeat_interleave(n_best)
        explanation = explain(
            self._network, inputs, rows, decoded.words.flatten(0, 1), decoded.shifts.flatten(0, 1), Settings().begin
        )
        return _grounded_captions(decoded, explanation, inputs, self.vocabulary)

    def _search(self, inputs: ControlInputs, options: CaptionOptions) -> Decoded:
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
        if on_gpu and constraints is None:
            return self._graphed.setdefault(settings, GraphedSearch(self._fused, settings))(inputs)
        return beam_search(self._fused, self._fused.begin(inputs), settings, constraints)

    def _ids(self, words: Sequence[str]) -> tuple[int, ...]:
        for word in words:
            if self.vocabulary.ids.get(word, UNKNOWN) == UNKNOWN:
                raise InputError(
                    f"word {word!r} is not in the vocabulary of {len(self.vocabulary)} words: wanted one it has"
                )
        return tuple(self.vocabulary.ids[word] for word in words)

    def _inputs(self, requests: Sequence[CaptionRequest]) -> ControlInputs:
        features: list[np.ndarray] = []
        images, controls = [], []
        for request in requests:
            if not request.control.ordered:
                raise InputError("the control is a set, and no sorter is at hand: wanted regions in order")
            sets = []
            for region_set in request.control.region_sets:
                sets.append(list(range(len(features), len(features) + len(region_set.regions))))
                features += [self._feature(region) for region in region_set.regions]
            controls.append(sets)
            described = request.detections or [r for s in request.control.region_sets for r in s.regions]
            images.append(np.mean([self._feature(region) for region in described], axis=0))
        packed = pack_controls(torch.from_numpy(np.stack(features)), torch.from_numpy(np.stack(images)), controls)
        return packed.to(self.device)

    def _feature(self, region: Region) -> np.ndarray:
        wanted = self._network.config.feature_size
        if region.feature is None:
            raise InputError(f"region {tuple(region.box)} has no feature: wanted {wanted} numbers")
        if region.feature.shape != (wanted,) or not np.isfinite(region.feature).all():
            raise InputError(
                f"the feature of region {tuple(region.box)} has shape {region.feature.shape}: "
                f"wanted {wanted} finite numbers"
            )
        return region.feature.astype(np.float32)


def load(folder: str | Path, *, device: str = "cpu", precision: Precision = "float32") -> Captioner:
    """Load a bundle."""
    bundle = load_bundle(Path(folder))
    return Captioner(bundle.captioner, bundle.vocabulary, device=device, precision=precision)


def _grounded_captions(
    decoded: Decoded, explanation: Explanation, inputs: ControlInputs, vocabulary: Vocabulary
) -> list[list[GroundedCaption]]:
    """Turn tensors into records; what stands for a caption that could not be found is left out."""
    examples, n_best, _ = decoded.words.shape
    words, scores = decoded.words.tolist(), (decoded.word_log_probs + decoded.shift_log_probs).sum(-1).tolist()
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
