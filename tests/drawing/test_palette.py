import pytest

from sct.drawing.palette import PALETTE, PAPER, UNGROUNDED


def luminance(color):
    parts = [value / 255 for value in color]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("color", [*PALETTE, UNGROUNDED])
def test_white_text_has_enough_contrast_on_each_color(color):
    assert (luminance(PAPER) + 0.05) / (luminance(color) + 0.05) >= 4.5
