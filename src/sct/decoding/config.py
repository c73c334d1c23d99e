"""How a caption is searched for."""

from dataclasses import dataclass

from sct.errors import InputError

MAX_LENGTH_PENALTY = 10.0
"""More than anybody needs; lengths to much higher powers are no numbers in single precision."""


def check_length_penalty(value: float, source: str = "length_penalty") -> None:
    """Refuse a power that captions cannot be ranked by; also one that is not a number."""
    if not 0 <= value <= MAX_LENGTH_PENALTY:
        raise InputError(f"{source} is {value}: expected 0 (off) to {MAX_LENGTH_PENALTY:g}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig:
    """The paper's search with beam 5, unless said otherwise; greedy and sampling look at lengths and tokens alone.

    Special words come as ids, so that a search needs no vocabulary; the defaults are those of ``sct.language``.

    >>> SearchConfig(beam_size=3, n_best=3).max_length
    20
    >>> SearchConfig.reference().freeze
    False
    """

    max_length: int = 20
    """Most steps a caption may take, its end token included; one that has not ended by then is cut."""
    beam_size: int = 5
    """Hypotheses kept for each example."""
    n_best: int = 1
    """Hypotheses returned for each example, best first."""
    length_penalty: float = 0.0
    """Candidates and results are ranked by score / length ** this; 0 is the paper's plain sum."""
    freeze: bool = True
    """Keep what has ended as it is. False is the authors' search: every step is taken and scored, ended or not.

    The log-probabilities that its beam search reports do not sum to the score, which is kept for their numbers: each
    step's are those of the hypothesis that held the place then, and words after the end are reported as free.
    """
    count_end_shift: bool = False
    """Whether an end token pays for its STAY. No gate is learned there, as nothing follows: it is free by default."""
    early_stop: bool = True
    """Stop when every hypothesis has ended. False takes all steps and never waits: fit for a CUDA graph."""
    pad: int = 1
    """Id of the word that fills up what has ended."""
    bos: int = 2
    """Id of the word that stands before the first."""
    eos: int = 3
    """Id of the word that ends a caption."""

    def __post_init__(self) -> None:
        """Refuse what cannot be searched."""
        for name in ("max_length", "beam_size", "n_best"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: expected at least 1")
        if self.n_best > self.beam_size:
            raise InputError(
                f"n_best is {self.n_best} but a beam holds {self.beam_size}: ask for fewer, or raise beam_size"
            )
        check_length_penalty(self.length_penalty)
        if len({self.pad, self.bos, self.eos}) < 3 or min(self.pad, self.bos, self.eos) < 0:
            raise InputError(f"pad, bos and eos are {self.pad}, {self.bos}, {self.eos}: expected three ids, 0 or more")
        if not self.freeze and self.length_penalty:
            raise InputError("freeze=False goes on after the end, so a caption has no length: set length_penalty to 0")

    @classmethod
    def reference(cls) -> "SearchConfig":
        """The search of the authors' released code: beam 5, always 20 steps, a plain sum that goes on after the end."""
        return cls(freeze=False, early_stop=False)
