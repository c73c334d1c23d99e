import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

import sct
from sct import Control, GroundedCaption, InputError
from sct.captioner.grounded_caption import CaptionWord, GroundedChunk
from sct.drawing.captions import DrawnCaption, draw_captions
from sct.drawing.notebook import show
from sct.regions.images import load_image

PIXELS = np.full((60, 90, 3), 90, np.uint8)
CONTROL = Control.of_boxes([(10, 10, 40, 50)])


def caption_of(*words):
    spoken = tuple(CaptionWord(word, 0, (1.0,), 0.0, 0.0) for word in words)
    chunk = GroundedChunk(" ".join(words), (0, len(words)), 0)
    return GroundedCaption(spoken, (chunk,), -1.0, control=CONTROL)


def test_no_caption_is_refused():
    with pytest.raises(InputError, match="no caption to show"):
        show(PIXELS)


@pytest.mark.parametrize(
    ("captions", "titles"),
    [
        pytest.param([caption_of("a", "dog")], (), id="one"),
        pytest.param([caption_of("a", "dog"), caption_of("a", "cat")], ("first",), id="two, one of them titled"),
    ],
)
def test_a_notebook_draws_what_the_command_draws(captions, titles):
    shown = show(PIXELS, *captions, titles=titles)
    drawn = [DrawnCaption(caption, title) for caption, title in zip(captions, (*titles, "", ""), strict=False)]
    expected = draw_captions(load_image(PIXELS), drawn)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(shown._repr_png_()))), np.asarray(expected))
    inside = re.fullmatch(r'<img alt="([^"]*)" style="[^"]*" src="data:image/png;base64,([^"]*)">', shown._repr_html_())
    assert inside[1] == "; ".join(caption.text for caption in captions)
    assert base64.b64decode(inside[2]) == shown._repr_png_()


def test_words_are_only_ever_text():
    html = show(PIXELS, caption_of('"><script>alert(1)</script>'))._repr_html_()
    assert "<script" not in html
    assert html.startswith('<img alt="&quot;&gt;&lt;script&gt;')


def test_it_is_part_of_the_public_face():
    assert sct.show is show
