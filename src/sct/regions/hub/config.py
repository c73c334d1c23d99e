"""Which models of the hub see, and how."""

from dataclasses import dataclass

from sct.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """Names instead of weights: what a file of such eyes holds."""

    backbone: str
    """What features come from: its name on the hub, or a local folder."""
    backbone_revision: str | None = None
    """The commit that is fetched; none for a local folder."""
    detector: str | None = None
    """What proposals and names come from; without one there are none."""
    detector_revision: str | None = None
    side: int | None = None
    """Pixels of the square that every picture is brought to; none: what the backbone's own preparation makes."""
    least_score: float = 0.2
    """What a detection must score to count."""
    max_proposals: int = 30

    def __post_init__(self) -> None:
        """Refuse what cannot be looked with."""
        for what, name in (("backbone", self.backbone), ("detector", self.detector)):
            if name is not None and not name.strip():
                raise InputError(f"the {what} has no name: wanted one of the Hugging Face hub, or a local folder")
        if self.side is not None and self.side < 1:
            raise InputError(f"side is {self.side}: wanted at least 1 pixel")
        if not 0 <= self.least_score <= 1:
            raise InputError(f"least_score is {self.least_score}: wanted 0 to 1")
        if self.max_proposals < 1:
            raise InputError(f"max_proposals is {self.max_proposals}: wanted at least 1")
