"""Colours of drawings."""

Colour = tuple[int, int, int]

PALETTE: tuple[Colour, ...] = (
    (208, 32, 38), (24, 108, 190), (28, 128, 44), (186, 88, 0), (136, 78, 180),
    (0, 122, 134), (206, 36, 130), (122, 82, 60), (112, 112, 0), (64, 60, 200),
)  # fmt: skip
"""Colours of region sets; white text has a contrast of at least 4.5 on each."""
UNGROUNDED: Colour = (112, 112, 112)
"""Noun chunks without a region."""
INK: Colour = (30, 30, 30)
LIGHT_INK: Colour = (105, 105, 105)
PAPER: Colour = (255, 255, 255)
CANVAS: Colour = (236, 236, 236)


def set_colour(number: int) -> Colour:
    """Return the colour of a region set by its position in the control.

    >>> set_colour(0) == set_colour(len(PALETTE))
    True
    """
    return PALETTE[number % len(PALETTE)]
