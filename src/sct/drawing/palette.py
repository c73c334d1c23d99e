"""Colours of drawings."""

Color = tuple[int, int, int]

PALETTE: tuple[Color, ...] = (
    (208, 32, 38), (24, 108, 190), (28, 128, 44), (186, 88, 0), (136, 78, 180),
    (0, 122, 134), (206, 36, 130), (122, 82, 60), (112, 112, 0), (64, 60, 200),
)  # fmt: skip
"""Colours of region sets; white text has a contrast of at least 4.5 on each."""
UNGROUNDED: Color = (112, 112, 112)
"""Noun chunks without a region."""
INK: Color = (30, 30, 30)
LIGHT_INK: Color = (105, 105, 105)
PAPER: Color = (255, 255, 255)
CANVAS: Color = (236, 236, 236)


def set_color(number: int) -> Color:
    """Return the colour of a region set by its position in the control.

    >>> set_color(0) == set_color(len(PALETTE))
    True
    """
    return PALETTE[number % len(PALETTE)]
