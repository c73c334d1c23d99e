"""What is kept of an image sees what a new look would see."""

import numpy as np
import pytest

from sct.regions import Box
from sct.regions.images import LoadedImage
from sct.serving.glances import glance_at
from tests.colour_vision import ColourVision, quartered
from tests.serving.studio_model import BLUE, GREEN, GREY, RED, eye_of_16

IMAGES = [
    LoadedImage(quartered(RED, GREEN, GREY, BLUE), 400, 200, "one"),
    LoadedImage(quartered(BLUE, GREY, RED, GREEN, width=30, height=60), 30, 60, "two"),
]
BOXES = [Box(1.0, 2.0, 20.0, 33.5), Box(0.0, 0.0, 30.0, 60.0)]


@pytest.mark.parametrize("vision", [ColourVision(16), eye_of_16()], ids=["any vision", "the eye of a bundle"])
@pytest.mark.parametrize("boxes", [[], BOXES[:1], BOXES], ids=["none", "one", "two"])
def test_a_glance_sees_what_a_look_sees(vision, boxes):
    looks = vision.look(IMAGES, [boxes, boxes])
    for glance, look, image in zip(glance_at(vision, IMAGES), looks, IMAGES, strict=True):
        sight = glance.sight(boxes)
        np.testing.assert_allclose(sight.descriptor, look.descriptor, atol=1e-5)
        for ours, expected in ((sight.regions, look.regions), (sight.proposals, look.proposals)):
            assert [region.class_name for region in ours] == [region.class_name for region in expected]
            for one, other in zip(ours, expected, strict=True):
                np.testing.assert_allclose(one.box, other.box, rtol=1e-4)
                np.testing.assert_allclose(one.feature, other.feature, atol=1e-4)
                assert one.score == pytest.approx(other.score, abs=1e-5)
        assert (glance.id, glance.width, glance.height) == (image.name, image.width, image.height)
        assert glance.shell().pixels.size == 0


def test_an_eye_looks_once(monkeypatch):
    eye, looks = eye_of_16(), []
    look = eye.network.look
    monkeypatch.setattr(eye.network, "look", lambda images: looks.append(len(images)) or look(images))
    glances = glance_at(eye, IMAGES)
    for glance in glances:
        glance.sight(BOXES)
        glance.sight(BOXES[:1])
    assert looks == [2]
    grid = (84 // 14) ** 2
    assert glances[0].num_bytes > 4 * (24 * grid + 8 * grid), "at least its maps"


def test_of_no_images():
    assert glance_at(ColourVision(6), []) == []
