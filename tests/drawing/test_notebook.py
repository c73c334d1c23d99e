import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

import sct
from sct import Control, GroundedCaption, InputError
from sct.captioner.grounded_caption import CaptionWord, GroundedChunk
from sct.drawing.captions import TitledCaption, draw_captions
from sct.drawing.notebook import show
from sct.regions.images import load_image

PIXELS = np.full((60, 90, 3), 90, np.uint8)
CONTROL = Control.from_boxes([(10, 10, 40, 50)])


def make_caption(*words):
    caption_words = tuple(CaptionWord(word, 0, (1.0,), 0.0, 0.0) for word in words)
    chunk = GroundedChunk(" ".join(words), (0, len(words)), 0)
    return GroundedCaption(caption_words, (chunk,), -1.0, control=CONTROL)


def test_no_captions_is_an_error():
    with pytest.raises(InputError, match="got no caption"):
        show(PIXELS)


@pytest.mark.parametrize(
    ("captions", "titles"),
    [
        pytest.param([make_caption("a", "dog")], (), id="one"),
        pytest.param([make_caption("a", "dog"), make_caption("a", "cat")], ("first",), id="two, one with a title"),
    ],
)
def test_notebook_shows_the_drawing_of_sct_caption(captions, titles):
    shown = show(PIXELS, *captions, titles=titles)
    titled = [TitledCaption(caption, title) for caption, title in zip(captions, (*titles, "", ""), strict=False)]
    expected = draw_captions(load_image(PIXELS), titled)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(shown._repr_png_()))), np.asarray(expected))
    inside = re.fullmatch(r'<img alt="([^"]*)" style="[^"]*" src="data:image/png;base64,([^"]*)">', shown._repr_html_())
    assert inside[1] == "; ".join(caption.text for caption in captions)
    assert base64.b64decode(inside[2]) == shown._repr_png_()


def test_caption_text_is_escaped():
    html = show(PIXELS, make_caption('"><script>alert(1)</script>'))._repr_html_()
    assert "<script" not in html
    assert html.startswith('<img alt="&quot;&gt;&lt;script&gt;')


def test_show_is_exported():
    assert sct.show is show
