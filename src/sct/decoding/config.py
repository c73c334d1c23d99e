"""Config of a search."""

from dataclasses import dataclass

from sct.errors import InputError, format_value
from sct.limits import MAX_BEAM_SIZE, MAX_LENGTH, check_integer

MAX_LENGTH_PENALTY = 10.0
"""Lengths to much higher powers overflow in single precision."""


def check_length_penalty(value: float, source: str = "length_penalty") -> None:
    """Raise if a length penalty is out of range or not a number."""
    if not 0 <= value <= MAX_LENGTH_PENALTY:
        raise InputError(f"got {source} {format_value(value)}, expected 0 (off) to {MAX_LENGTH_PENALTY:g}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig:
    """Search settings; the defaults are the paper's beam search of size 5.

    Greedy search and sampling use the lengths and token ids only. Special tokens are ids, so that a search needs no
    vocabulary; the defaults are those of ``sct.language``.

    >>> SearchConfig(beam_size=3, n_best=3).max_length
    20
    >>> SearchConfig.reference().freeze_finished
    False
    """

    max_length: int = 20
    """Maximum number of steps including EOS; captions without EOS are cut."""
    beam_size: int = 5
    """Hypotheses kept per example."""
    n_best: int = 1
    """Hypotheses returned per example, best first."""
    length_penalty: float = 0.0
    """Hypotheses are ranked by score / length ** length_penalty; 0 is the paper's plain sum."""
    freeze_finished: bool = True
    """Pad finished hypotheses at no cost. False is the authors' search, which goes on scoring words after EOS.

    Its reported log-probabilities then do not sum to the score: each step's are those of the hypothesis that held the
    beam position at the time, and words after EOS are reported as free. This reproduces the authors' numbers.
    """
    count_end_shift: bool = False
    """Whether EOS pays for its STAY. The gate is not trained there, as nothing follows, so the default is free."""
    early_stop: bool = True
    """Stop when all hypotheses are finished. False takes all steps without synchronising, as CUDA graphs require."""
    pad: int = 1
    """Id of the padding token."""
    bos: int = 2
    """Id of the token before the first word."""
    eos: int = 3
    """Id of the token that ends a caption."""

    def __post_init__(self) -> None:
        """Check values and combinations."""
        check_integer("max_length", self.max_length, 1, MAX_LENGTH)
        for name in ("beam_size", "n_best"):
            check_integer(name, getattr(self, name), 1, MAX_BEAM_SIZE)
        if self.n_best > self.beam_size:
            raise InputError(
                f"got n_best {self.n_best} with beam_size {self.beam_size}, expected at most the beam size: lower "
                "n_best or raise beam_size"
            )
        check_length_penalty(self.length_penalty)
        if len({self.pad, self.bos, self.eos}) < 3 or min(self.pad, self.bos, self.eos) < 0:
            raise InputError(
                f"got pad, bos and eos {self.pad}, {self.bos}, {self.eos}, expected three different ids, 0 or more"
            )
        if not self.freeze_finished and self.length_penalty:
            raise InputError(
                "got a length_penalty with freeze_finished=False, where captions have no length: set it to 0"
            )

    @classmethod
    def reference(cls) -> "SearchConfig":
        """Search of the authors' released code: beam 5, always 20 steps, a plain sum that goes on after EOS."""
        return cls(freeze_finished=False, early_stop=False)
