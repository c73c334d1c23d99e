"""Evaluation settings."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal

from sct.captioner.captioner import Captioner
from sct.captioner.requests import CaptionOptions
from sct.data.prepare import ProgressCallback
from sct.data.samples import ControlKind
from sct.errors import InputError
from sct.limits import MAX_BATCH_SIZE, MAX_SAMPLES, check_integer
from sct.metrics.report import TABLE_METRICS, check_metrics

DEFAULT_SPLIT = "val"
BATCH_SIZE = 200
PLAIN_SEARCH = CaptionOptions(no_repeat_ngram_size=0, whole_chunks=False, min_fit=0.0)
"""Search of evaluations under control: without constraints, so that models are measured as they are."""
EvaluationControl = ControlKind | Literal["detected"]
"""Controls of the dataset, or regions that are detected, selected and ordered as by ``sct caption``."""

ProgressBar = Callable[[str], AbstractContextManager[ProgressCallback]]
"""Opens a progress display for a named stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConfig:
    """Split, protocol, search and metrics of an evaluation."""

    split: str | None = None
    """None: "val", or the first split of a JSONL file."""
    control: EvaluationControl = "sequence"
    num_captions: int | None = None
    """Captions per image of the diversity protocol (section 4.4, Table 6), which ignores ``control``; None: one per
    image and control."""
    metrics: tuple[str, ...] = TABLE_METRICS
    reference: bool = False
    """Search, group and score as the authors' released code."""
    batch_size: int = BATCH_SIZE
    length_penalty: float | None = None
    """Hypotheses are ranked by ``log_prob / length ** length_penalty``; None: the bundle's default."""
    constraints: bool = False
    """Keep noun chunks whole and repeat no bigram, as ``sct caption`` does.

    Its rules for the words of a region set (numbers, ``min_fit``) do not apply. The search for detected regions is that
    of ``sct caption`` in any case.
    """

    def __post_init__(self) -> None:
        """Check the values before anything is computed."""
        check_metrics(self.metrics)
        self.options()
        if self.reference and self.length_penalty:
            raise InputError(
                f"got length_penalty {self.length_penalty} with reference, expected 0: the authors' search has none"
            )
        if self.reference and self.constraints:
            raise InputError("got constraints with reference, but the authors' search has none: give one of them")
        check_integer("batch_size", self.batch_size, 1, MAX_BATCH_SIZE)
        if self.num_captions is not None:
            check_integer("num_captions", self.num_captions, 1, MAX_SAMPLES)

    def options(self) -> CaptionOptions:
        """Search options: the paper's search, without constraints, or that of ``sct caption``."""
        search = CaptionOptions() if self.constraints or self.control == "detected" else PLAIN_SEARCH
        return replace(search, reference_search=self.reference, length_penalty=self.length_penalty)

    def resolve(self, captioner: Captioner, split: str) -> "EvaluationConfig":
        """Fill in the defaults of the data and the captioner, for the record."""
        return replace(
            self,
            split=self.split or split,
            length_penalty=captioner.resolve_length_penalty(self.options()),
            constraints=self.constraints or self.control == "detected",
        )
