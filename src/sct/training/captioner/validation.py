"""Validation: quick scores of captions decoded on the validation split, with metrics that need no Java."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from sct.data.index import caption_text
from sct.data.samples import Sample
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

_DECODING_BATCH_SIZE = 500


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """The samples of ``sct evaluate --control sequence``, decoded with the recipe's beam size.

    Controls and captions are not truncated to the limits of training examples.
    """

    loader: DeviceDataLoader
    """One example per sample."""
    references: tuple[tuple[str, ...], ...]
    vocabulary: Vocabulary
    nouns: NounTable | None
    is_reference_mode: bool
    """As in the authors' code: the beam search continues after EOS, and consecutive repeats are collapsed."""
    beam_size: int
    """1: greedy decoding."""
    device: torch.device

    @torch.no_grad()
    def __call__(self, model: CaptionModel) -> dict[str, float]:
        """CIDEr-D, BLEU-4 and, with a noun table, NW, in the units of the paper's tables."""
        decoder = model.for_inference(dtype=torch.float16 if self.device.type == "cuda" else torch.float32)
        decode = greedy if self.beam_size == 1 else beam_search
        config = SearchConfig.reference() if self.is_reference_mode else SearchConfig()
        config = replace(config, beam_size=self.beam_size)
        batch_size = max(1, _DECODING_BATCH_SIZE // self.beam_size)
        captions = []
        for rows in torch.arange(len(self.loader), device=self.loader.storage_device).split(batch_size):
            output = decode(decoder, decoder.init_state(self.loader.controls(rows)), config)
            captions += [" ".join(self.vocabulary.decode(ids)) for ids in output.words[:, 0].tolist()]
        if self.is_reference_mode:
            captions = [collapse_repeats(caption) for caption in captions]
        return quick_scores(captions, self.references, nouns=self.nouns)


def make_validation(
    table: Table,
    samples: Sequence[Sample],
    loader: DeviceDataLoader,
    vocabulary: Vocabulary,
    nouns: NounTable | None,
    device: torch.device,
    *,
    is_reference_mode: bool = False,
    beam_size: int = 1,
) -> Validation:
    """Validate against the captions of ``samples``, whose controls ``loader`` has in the same order."""
    references = tuple(tuple(caption_text(table, caption) for caption in sample.captions) for sample in samples)
    return Validation(loader, references, vocabulary, nouns, is_reference_mode, beam_size, device)
