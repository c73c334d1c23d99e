"""Control fidelity from images: caption human boxes under five kinds of control and compare the names.

Controls are those of the human captions of a grounded JSONL file. Each is asked for in the order of mention, in a
random and in the reverse order, as a set that the sorter orders, and one of its region sets alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Literal, get_args

from sct.captioner.captioner import Captioner
from sct.captioner.encode import region_request
from sct.captioner.grounded_caption import GroundedCaption
from sct.captioner.requests import IMAGE_BATCH_SIZE, CaptionOptions, RegionRequest
from sct.data.prepare import ProgressCallback
from sct.data.records import AnnotatedImage, Caption
from sct.errors import InputError
from sct.evaluation.from_images import BoxScaler, read_human_grounded
from sct.language.noun_table import NounTable
from sct.metrics.captions import pair
from sct.metrics.cider import cider_d
from sct.metrics.control_fidelity import (
    ControlFidelity,
    FidelityCaption,
    FidelityChunk,
    chunk_noun,
    control_fidelity,
)
from sct.metrics.noun_relations import load_relations
from sct.regions.image_source import open_images_beside
from sct.regions.records import Control, Region, RegionSet
from sct.vision.interface import EncodedImage

OrderKind = Literal["mention", "random", "reverse", "single", "set"]
ORDER_KINDS: tuple[OrderKind, ...] = get_args(OrderKind)
"""Kinds of control: three orders of all region sets, one region set alone, and a set that the sorter orders."""
_BATCH_SIZE = 32


@dataclass(frozen=True, slots=True)
class HumanControl:
    """Control of a human caption, and how people name its region sets."""

    image_id: str
    region_sets: tuple[RegionSet, ...]
    human_nouns: tuple[tuple[str, ...], ...]
    image_nouns: frozenset[str]
    references: tuple[str, ...]
    """Human captions with this control."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoredControl:
    """A caption under one kind of control."""

    control: HumanControl
    """With its region sets in the order asked for."""
    caption: GroundedCaption


@dataclass(frozen=True, slots=True)
class FidelityResult:
    """Scores of one kind of control."""

    kind: OrderKind
    fidelity: ControlFidelity
    cider: float | None
    """Against the human captions of the control, whatever order was asked for; None for single regions."""

    def as_dict(self) -> dict[str, float | str | None]:
        """Return JSON-serialisable values."""
        return {"kind": self.kind, **asdict(self.fidelity), "C": self.cider}


def evaluate_fidelity(
    captioner: Captioner,
    path: Path,
    nouns: NounTable,
    *,
    images: Sequence[Path] = (),
    kinds: Sequence[OrderKind] = ORDER_KINDS,
    options: CaptionOptions | None = None,
    max_controls: int | None = None,
    min_region_sets: int = 1,
    select_image: Callable[[str], bool] | None = None,
    progress: ProgressCallback | None = None,
) -> list[FidelityResult]:
    """Score the captions of every kind of control; ``max_controls`` keeps the first ones of the file.

    Controls of fewer than ``min_region_sets`` are left out: one region set has no order.
    """
    found: dict[OrderKind, list[ScoredControl]] = {kind: [] for kind in kinds}
    for kind, scored in caption_controls(
        captioner,
        path,
        nouns,
        images=images,
        kinds=kinds,
        options=options,
        max_controls=max_controls,
        min_region_sets=min_region_sets,
        select_image=select_image,
        progress=progress,
    ):
        found[kind].append(scored)
    return [_score(kind, scored, nouns) for kind, scored in found.items()]


def caption_controls(
    captioner: Captioner,
    path: Path,
    nouns: NounTable,
    *,
    images: Sequence[Path] = (),
    kinds: Sequence[OrderKind] = ORDER_KINDS,
    options: CaptionOptions | None = None,
    max_controls: int | None = None,
    min_region_sets: int = 1,
    select_image: Callable[[str], bool] | None = None,
    progress: ProgressCallback | None = None,
) -> Iterator[tuple[OrderKind, ScoredControl]]:
    """Caption the controls of a grounded JSONL file under each kind of control, image by image."""
    vision = captioner.vision
    if vision is None:
        raise InputError("control fidelity is measured from images, but the bundle has no vision encoder")
    if "set" in kinds and captioner.sorter is None:
        kinds = [kind for kind in kinds if kind != "set"]
    annotated = [image for image in read_human_grounded(path) if select_image is None or select_image(image.image_id)]
    source = open_images_beside(path, images)
    num_controls = 0
    for start in range(0, len(annotated), IMAGE_BATCH_SIZE):
        batch = annotated[start : start + IMAGE_BATCH_SIZE]
        loaded = [source.load(image.image_id) for image in batch]
        pending: list[tuple[OrderKind, HumanControl, RegionRequest]] = []
        for image, pixels, encoded in zip(batch, loaded, vision.encode(loaded), strict=True):
            controls = [
                control
                for control in _human_controls(image, BoxScaler(image, pixels), nouns)
                if len(control.region_sets) >= min_region_sets
            ]
            if max_controls is not None:
                controls = controls[: max_controls - num_controls]
            num_controls += len(controls)
            pending += [
                (kind, ordered, _request(encoded, ordered, is_set=kind == "set"))
                for control in controls
                for kind in kinds
                for ordered in [order_control(control, kind)]
            ]
        for first in range(0, len(pending), _BATCH_SIZE):
            rows = pending[first : first + _BATCH_SIZE]
            captions = captioner.caption_batch([request for _, _, request in rows], options)
            for (kind, control, _), (caption, *_others) in zip(rows, captions, strict=True):
                yield kind, ScoredControl(control, caption)
        if progress is not None:
            progress(start + len(batch), len(annotated))
        if max_controls is not None and num_controls >= max_controls:
            return


def order_control(control: HumanControl, kind: OrderKind) -> HumanControl:
    """The control as a kind asks for it; random choices depend on the image and the references only."""
    generator = Random(f"{control.image_id} {control.references[0]}")
    numbers = list(range(len(control.region_sets)))
    if kind == "random":
        generator.shuffle(numbers)
    elif kind == "reverse":
        numbers.reverse()
    elif kind == "single":
        numbers = [generator.choice(numbers)]
    return replace(
        control,
        region_sets=tuple(control.region_sets[number] for number in numbers),
        human_nouns=tuple(control.human_nouns[number] for number in numbers),
    )


def fidelity_caption(scored: ScoredControl) -> FidelityCaption:
    """What the metric compares; region sets are numbered as asked for, those of a set as described."""
    caption, control = scored.caption, scored.control
    human = control.human_nouns
    position = {number: number for number in range(len(human))}
    if caption.order is not None:
        position = {number: place for place, number in enumerate(caption.order.sets)}
        human = tuple(control.human_nouns[number] for number in caption.order.sets)
    return FidelityCaption(
        tuple(word.text for word in caption.words),
        tuple(FidelityChunk(tuple(chunk.text.split()), position[chunk.region_set]) for chunk in caption.chunks),
        human,
        control.image_nouns,
    )


def _score(kind: OrderKind, scored: Sequence[ScoredControl], nouns: NounTable) -> FidelityResult:
    fidelity = control_fidelity([fidelity_caption(each) for each in scored], nouns, load_relations())
    score = None
    if kind != "single" and scored:
        texts = [each.caption.text for each in scored]
        score = 100 * cider_d(pair(texts, [each.control.references for each in scored])).corpus
    return FidelityResult(kind, fidelity, score)


def _request(encoded: EncodedImage, control: HumanControl, *, is_set: bool) -> RegionRequest:
    return region_request(encoded, Control(control.region_sets, ordered=not is_set), has_sorter=True)


def _human_controls(image: AnnotatedImage, scaler: BoxScaler, nouns: NounTable) -> list[HumanControl]:
    """Controls of the captions of an image whose mentions all have boxes, each once."""
    chunks = [list(_grounded_chunks(caption)) for caption in image.captions]
    names: dict[frozenset[int], list[str]] = {}
    for words, regions in (each for caption in chunks for each in caption):
        noun = chunk_noun(words, nouns)
        names.setdefault(frozenset(regions), []).extend([] if noun is None else [noun])
    image_nouns = {word for caption in image.captions for word in caption.words if word in nouns}
    classes = {region.class_name for region in image.regions if region.class_name is not None}
    references: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for number, caption in enumerate(chunks):
        sets = tuple(dict.fromkeys(regions for _, regions in caption))
        if sets:
            references.setdefault(sets, []).append(number)
    controls = []
    for sets, numbers in references.items():
        own = {regions: chunk_noun(phrase, nouns) for phrase, regions in reversed(chunks[numbers[0]])}
        controls.append(
            HumanControl(
                image.image_id,
                tuple(
                    RegionSet(tuple(Region(scaler.to_image(image.regions[region].box)) for region in regions))
                    for regions in sets
                ),
                tuple(
                    tuple(
                        noun for noun in dict.fromkeys([own[regions], *names[frozenset(regions)]]) if noun is not None
                    )
                    for regions in sets
                ),
                frozenset(image_nouns | classes),
                tuple(image.captions[number].text for number in numbers),
            )
        )
    return controls


def _grounded_chunks(caption: Caption) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Words and regions of each chunk of a human caption that has regions."""
    for index, chunk in enumerate(caption.chunks or ()):
        words = tuple(word for word, label in zip(caption.words, caption.chunk_of_word, strict=True) if label == index)
        if chunk.regions and words:
            yield words, chunk.regions
