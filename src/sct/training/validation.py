"""How good the captions of a validation split are, told quickly: greedy captions, and metrics that need no Java."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sct.data.samples import Sample, caption_text
from sct.data.table import Table
from sct.decoding.greedy import greedy
from sct.decoding.settings import Settings
from sct.language.nouns import NounTable
from sct.language.vocabulary import Vocabulary
from sct.metrics.pairs_on_spaces import collapse_repeats
from sct.metrics.report import quick_scores
from sct.model.system import CaptioningSystem
from sct.training.feed import Feed

_SAMPLES_AT_ONCE = 500


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    """The samples of a split as ``sct evaluate --control sequence`` has them, greedy instead of beam search.

    Controls are whole and captions as long as there, whatever the recipe's examples are cut to.
    """

    feed: Feed
    """One example for each sample, its control whole."""
    references: tuple[tuple[str, ...], ...]
    vocabulary: Vocabulary
    nouns: NounTable | None
    collapse: bool
    """Whether words said several times in a row count once, as in the authors' code."""
    device: torch.device

    @torch.no_grad()
    def __call__(self, network: CaptioningSystem) -> dict[str, float]:
        """CIDEr-D, BLEU-4 and, with a noun table, NW, in the units of the paper's tables."""
        speaker = network.speaker(dtype=torch.float16 if self.device.type == "cuda" else torch.float32)
        said = []
        for rows in torch.arange(len(self.feed), device=self.feed.home).split(_SAMPLES_AT_ONCE):
            inputs = self.feed.inputs(rows)
            decoded = greedy(speaker, speaker.begin(inputs), Settings())
            said += [" ".join(self.vocabulary.decode(ids)) for ids in decoded.words[:, 0].tolist()]
        if self.collapse:
            said = [collapse_repeats(caption) for caption in said]
        return quick_scores(said, self.references, nouns=self.nouns)


def make_validation(
    table: Table,
    samples: Sequence[Sample],
    feed: Feed,
    vocabulary: Vocabulary,
    nouns: NounTable | None,
    device: torch.device,
    *,
    collapse: bool = False,
) -> Validation:
    """Judge by the captions of the samples, which ``feed`` has the controls of, in the same order."""
    references = tuple(tuple(caption_text(table, caption) for caption in sample.captions) for sample in samples)
    return Validation(feed, references, vocabulary, nouns, collapse=collapse, device=device)
