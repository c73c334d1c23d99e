"""Validation scores equal those of the evaluation of the same bundle, also where training truncates examples."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sct.captioner.collate import collate_samples
from sct.data.features import make_features
from sct.data.index import caption_text
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.data.samples import make_samples
from sct.decoding import SearchConfig
from sct.decoding.beam import beam_search
from sct.decoding.sampling import greedy
from sct.metrics.report import quick_scores
from sct.models.fast_decoder import FastDecoder
from sct.regions import Box, Region
from sct.training.captioner import validation
from sct.training.captioner.config import ExamplesConfig
from sct.training.captioner.setup import TrainingComponents, build_training
from tests.factories import make_dataset, make_recipe

NOUNS = ("dog", "cat", "ball", "tree", "boy", "bird")


def plain(*nouns: int) -> Caption:
    """Caption that mentions one region per noun; regions 0 to 5 have one class each."""
    words = " and ".join(NOUNS[noun] for noun in nouns).split()
    labels = tuple(place // 2 if place % 2 == 0 else None for place in range(len(words)))
    return Caption(" ".join(words), tuple(words), labels, tuple(Chunk(NOUNS[noun], (noun,)) for noun in nouns))


def repeated() -> Caption:
    """Caption with two mentions of one chunk."""
    words = ("dog", "and", "dog", "and", "cat")
    return Caption(" ".join(words), words, (0, None, 0, None, 1), (Chunk("dog", (0,)), Chunk("cat", (1,))))


def crowded() -> Caption:
    """Caption whose region set exceeds the maximum size, in reverse order."""
    return Caption("bird", ("bird",), (0,), (Chunk("bird", tuple(range(29, 4, -1))),))


def image(number: int, split: str, caption: Caption) -> AnnotatedImage:
    places = np.random.default_rng(number).uniform(0, 0.5, (30, 2)).tolist()
    regions = tuple(
        Region(Box(left, top, left + 0.3, top + 0.4), NOUNS[min(place, 5)]) for place, (left, top) in enumerate(places)
    )
    return AnnotatedImage(
        image_id=f"{number}", split=split, width=1, height=1, regions=regions, captions=(caption, caption)
    )


@pytest.mark.parametrize(
    ("caption_of", "settings"),
    [
        pytest.param(lambda number: plain(number % 6, (number + 2) % 6), {}, id="plain"),
        pytest.param(lambda _: repeated(), {}, id="two mentions of one chunk"),
        pytest.param(lambda number: plain(*((number + place) % 6 for place in range(4))), {"max_slots": 3}, id="slots"),
        pytest.param(lambda number: plain(number % 6, 1, 2, 3, 4), {"max_length": 6}, id="words"),
        pytest.param(lambda _: crowded(), {"max_members": 2}, id="members"),
    ],
)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_validation_equals_evaluation(caption_of, settings, beam_size, tmp_path, monkeypatch):
    validated = [image(100 + number, "val", caption_of(number)) for number in range(12)]
    data = make_dataset(tmp_path / "data", [image(0, "train", plain(*range(6))), *validated], nouns=NOUNS)
    recipe = make_recipe(data, tmp_path / "run")
    recipe = replace(recipe, examples=ExamplesConfig(**settings), val_beam_size=beam_size)
    parts = build_training(recipe, torch.device("cpu"), torch.float32)
    for weight in parts.bundle.model.parameters():
        torch.nn.init.normal_(weight)  # so that captions depend on the regions

    scored = []
    monkeypatch.setattr(validation, "quick_scores", lambda *given, **_: scored.append(given) or quick_scores(*given))
    assert parts.validation is not None
    scores = parts.validation(parts.bundle.model)
    captions, references = evaluate(parts, beam_size)
    assert len(set(captions)) > 2
    [(captions_here, references_here)] = scored
    assert list(captions_here) == captions
    assert [list(texts) for texts in references_here] == references
    assert scores == quick_scores(captions, references)


def evaluate(parts: TrainingComponents, beam_size: int) -> tuple[list[str], list[list[str]]]:
    """Captions and references of ``sct evaluate --control sequence`` with this beam size."""
    table, bundle = parts.dataset.table, parts.bundle
    samples = make_samples(table, "val", "sequence")
    features = make_features(table, None, bundle.encoder)
    inputs = collate_samples(features, [sample.image for sample in samples], [sample.control for sample in samples])
    decoder = FastDecoder(bundle.model)
    search = greedy if beam_size == 1 else beam_search
    words = search(decoder, decoder.init_state(inputs), SearchConfig(beam_size=beam_size)).words[:, 0].tolist()
    captions = [" ".join(bundle.vocabulary.decode(ids)) for ids in words]
    return captions, [[caption_text(table, caption) for caption in sample.captions] for sample in samples]
