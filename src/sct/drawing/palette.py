"""Colours of drawings."""

Colour = tuple[int, int, int]

PALETTE: tuple[Colour, ...] = (
    (208, 32, 38), (24, 108, 190), (28, 128, 44), (186, 88, 0), (136, 78, 180),
    (0, 122, 134), (206, 36, 130), (122, 82, 60), (112, 112, 0), (64, 60, 200),
)  # fmt: skip
"""Told apart on white and in an image; white letters stand out on each (a contrast of 4.5 or more)."""
UNASSOCIATED: Colour = (112, 112, 112)
INK: Colour = (30, 30, 30)
FAINT_INK: Colour = (105, 105, 105)
PAPER: Colour = (255, 255, 255)
CANVAS: Colour = (236, 236, 236)


def colour_of_set(number: int) -> Colour:
    """The colour of a region set, by its number in the control.

    >>> colour_of_set(0) == colour_of_set(len(PALETTE))
    True
    """
    return PALETTE[number % len(PALETTE)]
