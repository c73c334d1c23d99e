"""How good the captions of a validation split are, told quickly: a narrow search, and metrics that need no Java."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from sct.data.samples import Sample, caption_text
from sct.data.table import Table
from sct.decoding.beam import beam_search
from sct.decoding.config import SearchConfig
from sct.decoding.sampling import greedy
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.metrics.captions import collapse_repeats
from sct.metrics.report import quick_scores
from sct.models.interface import CaptionModel
from sct.training.captioner.dataloader import DeviceDataLoader

_CAPTIONS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """The samples of a split as ``sct evaluate --control sequence`` has them, in a beam as wide as the recipe says.

    Controls are whole and captions as long as there, whatever the recipe's examples are cut to.
    """

    feed: DeviceDataLoader
    """One example for each sample, its control whole."""
    references: tuple[tuple[str, ...], ...]
    vocabulary: Vocabulary
    nouns: NounTable | None
    reference: bool
    """As in the authors' code: a beam goes on after the end, and words said several times in a row count once."""
    beam_size: int
    """1: greedy captions."""
    device: torch.device

    @torch.no_grad()
    def __call__(self, network: CaptionModel) -> dict[str, float]:
        """CIDEr-D, BLEU-4 and, with a noun table, NW, in the units of the paper's tables."""
        decoder = network.for_inference(dtype=torch.float16 if self.device.type == "cuda" else torch.float32)
        search = greedy if self.beam_size == 1 else beam_search
        settings = replace(SearchConfig.reference() if self.reference else SearchConfig(), beam_size=self.beam_size)
        at_once = max(1, _CAPTIONS_AT_ONCE // self.beam_size)
        said = []
        for rows in torch.arange(len(self.feed), device=self.feed.home).split(at_once):
            decoded = search(decoder, decoder.init_state(self.feed.inputs(rows)), settings)
            said += [" ".join(self.vocabulary.decode(ids)) for ids in decoded.words[:, 0].tolist()]
        if self.reference:
            said = [collapse_repeats(caption) for caption in said]
        return quick_scores(said, self.references, nouns=self.nouns)


def make_validation(
    table: Table,
    samples: Sequence[Sample],
    feed: DeviceDataLoader,
    vocabulary: Vocabulary,
    nouns: NounTable | None,
    device: torch.device,
    *,
    reference: bool = False,
    beam_size: int = 1,
) -> Validation:
    """Judge by the captions of the samples, which ``feed`` has the controls of, in the same order."""
    references = tuple(tuple(caption_text(table, caption) for caption in sample.captions) for sample in samples)
    return Validation(feed, references, vocabulary, nouns, reference=reference, beam_size=beam_size, device=device)
