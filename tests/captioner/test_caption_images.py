"""Captions of images, with a vision encoder that computes colours: encoding, proposal selection, ordering, errors."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from sct.captioner import encode
from sct.captioner.requests import CaptionOptions, ImageRequest, ProposalSelection, RegionRequest
from sct.errors import InputError
from sct.regions import Box, Control, Region, RegionSet
from sct.regions.images import LoadedImage, load_image
from tests.color_vision import ColorVision, paint_quarters
from tests.factories import BLUE, FEATURE_SIZE, GRAY, GREEN, RED, make_captioner

DARK_RED = (60, 0, 0)
OPTIONS = CaptionOptions(cover=True, max_length=9)
LEFT, RIGHT = (0, 0, 20, 20), (20, 0, 40, 20)


@pytest.fixture
def captioner():
    return make_captioner(sorter=None)


@pytest.fixture
def sorting():
    return make_captioner()


def names(caption):
    return [[region.class_name for region in each.regions] for each in caption.control.region_sets]


def boxes(caption):
    return [[tuple(region.box) for region in each.regions] for each in caption.control.region_sets]


@pytest.fixture(scope="module")
def photo():
    return paint_quarters(RED, GREEN, GRAY, BLUE)


def test_chunks_are_grounded_on_the_control(captioner, photo):
    caption = captioner.caption(photo, [LEFT, (20, 0, 40, 10)], options=OPTIONS)
    assert boxes(caption) == [[LEFT], [(20, 0, 40, 10)]]
    assert names(caption) == [["red"], ["green"]]
    assert caption.control.ordered
    assert caption.order is None
    for chunk in caption.chunks:
        assert tuple(caption.regions_of(chunk)[0].box) == boxes(caption)[chunk.region_set][0]
    assert json.loads(json.dumps(caption.as_dict()))["classes"] == [["red"], ["green"]]


def test_features_are_those_of_the_vision_encoder(captioner, photo):
    image = load_image(photo)
    [encoded] = ColorVision(FEATURE_SIZE).encode([image])
    control = Control(tuple(RegionSet((region,)) for region in encoded.regions([Box(*LEFT), Box(*RIGHT)])))
    request = RegionRequest(control, image_feature=encoded.image_feature)
    [[by_hand]] = captioner.caption_batch([request], OPTIONS)
    caption = captioner.caption(photo, [LEFT, RIGHT], options=OPTIONS)
    assert caption == replace(by_hand, control=caption.control)
    [[by_mean]] = captioner.caption_batch([replace(request, image_feature=None)], OPTIONS)
    assert by_mean.log_prob != by_hand.log_prob, "image_feature replaces the mean"


def test_captions_depend_on_boxes_and_image(captioner, photo):
    said = captioner.caption(photo, [LEFT]).log_prob
    assert captioner.caption(photo, [RIGHT]).log_prob != said
    assert captioner.caption(paint_quarters(BLUE, GREEN, GRAY, RED), [LEFT]).log_prob != said
    assert captioner.caption(photo, [LEFT]).log_prob == said


def test_all_kinds_of_images_and_regions(captioner, photo, tmp_path):
    Image.fromarray(photo).save(tmp_path / "photo.png")
    image = Image.open(tmp_path / "photo.png")
    kept = io.BytesIO()
    image.save(kept, "png")
    sources = [tmp_path / "photo.png", str(tmp_path / "photo.png"), kept.getvalue(), image, photo, load_image(photo)]
    expected = captioner.caption(photo, [LEFT, [LEFT, RIGHT]])
    for source in sources:
        assert captioner.caption(source, [LEFT, [LEFT, RIGHT]]) == expected
    left, right = Region(Box(*LEFT)), Region(Box(*RIGHT))
    region_lists = [
        [left, [left, RIGHT]],
        [RegionSet((left,)), RegionSet((left, right))],
        Control((RegionSet((left,)), RegionSet((left, right)))),
        (np.array(LEFT), np.array([LEFT, RIGHT])),
    ]
    for pointing in region_lists:
        assert captioner.caption(photo, pointing) == expected
    assert captioner.caption(photo, np.array([LEFT, RIGHT])) == captioner.caption(photo, [LEFT, RIGHT])


def test_a_name_that_a_user_gives_is_kept(sorting, photo):
    regions = [Region(Box(*LEFT), "green"), Region(Box(*RIGHT))]
    caption = sorting.caption(photo, regions, ordered=False)
    assert names(caption) == [["green"], ["green"]]
    assert caption.order.sets == (0, 1)
    assert names(sorting.caption(photo, [LEFT, RIGHT], ordered=False)) == [["red"], ["green"]]


def test_a_feature_that_came_with_a_region_is_not_believed(captioner, photo):
    lie = Region(Box(*LEFT), feature=np.full(FEATURE_SIZE, 9, np.float32))
    assert captioner.caption(photo, [lie]).log_prob == captioner.caption(photo, [LEFT]).log_prob


def test_an_unordered_control_is_sorted(sorting, photo):
    caption = sorting.caption(photo, [LEFT, (20, 10, 40, 20), (20, 0, 40, 10)], ordered=False, options=OPTIONS)
    assert names(caption) == [["red"], ["blue"], ["green"]]
    assert caption.order.sets == (2, 1, 0)
    assert [word.region_set for word in caption.words] == sorted((w.region_set for w in caption.words), reverse=True)
    same = sorting.caption(photo, Control.from_boxes([LEFT, (20, 10, 40, 20), (20, 0, 40, 10)], ordered=False))
    assert same.order.sets == (2, 1, 0)


def test_without_regions_proposals_are_selected_and_sorted(sorting, captioner, photo):
    caption = sorting.caption(photo, options=OPTIONS)
    assert names(caption) == [["red"], ["green"], ["blue"]], "by score: 220, 200 and 180; grey is no proposal"
    assert caption.order.sets == (1, 2, 0)
    assert not caption.control.ordered
    without = captioner.caption(photo, options=OPTIONS)
    assert names(without) == [["red"], ["green"], ["blue"]], "without a sorter the best is first"
    assert without.order is None
    assert without.control.ordered
    assert names(captioner.caption(photo, selection=ProposalSelection(max_regions=1))) == [["red"]]


def test_proposals_with_low_scores_are_dropped(captioner):
    assert names(captioner.caption(paint_quarters(RED, DARK_RED, GRAY, GRAY))) == [["red"]]


@pytest.mark.parametrize("size", [(40, 20), (1, 1)], ids=["grey", "one pixel"])
def test_without_proposals_the_image_is_one_region(captioner, size):
    caption = captioner.caption(paint_quarters(width=size[0], height=size[1]))
    assert boxes(caption) == [[(0, 0, *size)]]


def test_boxes_are_in_pixels_of_the_original_image(captioner):
    """A huge image is loaded at a lower resolution."""
    large = paint_quarters(RED, GREEN, GRAY, BLUE, width=4000, height=2000)
    small = LoadedImage(paint_quarters(RED, GREEN, GRAY, BLUE), 4000, 2000, "small")
    assert load_image(large).pixels.shape[1] < 4000
    expected = captioner.caption(small, [(0, 0, 2000, 2000), (2000, 0, 4000, 1000)])
    assert boxes(expected)[1] == [(2000, 0, 4000, 1000)]
    caption = captioner.caption(large, [(0, 0, 2000, 2000), (2000, 0, 4000, 1000)])
    assert caption.log_prob == pytest.approx(expected.log_prob, abs=0.05)


def test_a_batch_equals_single_images(sorting):
    colors = (RED, GREEN, BLUE, GRAY)
    images = [paint_quarters(*np.roll(colors, place, axis=0)) for place in range(11)]
    controls = [None, Control.from_boxes([LEFT]), Control.from_boxes([RIGHT, LEFT, (5, 5, 9, 9)], ordered=False)]
    requests = [ImageRequest(each, controls[place % 3]) for place, each in enumerate(images)]
    options = CaptionOptions(n_best=2)
    found = sorting.caption_images(requests, options)
    assert [len(names) for names in sorting.vision.encoded] == [8, 3], "batches of 8"
    assert len({captions[0].log_prob for captions in found}) > 6
    for request, captions in zip(requests, found, strict=True):
        [alone] = sorting.caption_images([request], options)
        assert [(c.text, c.control, c.order) for c in captions] == [(c.text, c.control, c.order) for c in alone]
    assert sorting.caption_images([]) == []


def test_an_image_with_several_controls_is_encoded_once(captioner, photo):
    image = load_image(photo, name="photo")
    requests = [ImageRequest(image, control_) for control_ in (None, Control.from_boxes([LEFT, RIGHT]), None)]
    [detected], [pointed], _ = captioner.caption_images(requests)
    assert captioner.vision.encoded == [["photo"]]
    for together, alone in ((pointed, captioner.caption(photo, [LEFT, RIGHT])), (detected, captioner.caption(photo))):
        assert (together.text, together.control) == (alone.text, alone.control)
        assert together.log_prob == pytest.approx(alone.log_prob, abs=1e-4)


def test_an_image_with_several_controls_is_loaded_once(captioner, photo, monkeypatch):
    loaded = []
    monkeypatch.setattr(encode, "load_image", lambda source: loaded.append(source) or load_image(source))
    captioner.caption_images([ImageRequest(photo, Control.from_boxes([box])) for box in (LEFT, RIGHT)])
    assert len(loaded) == 1


def test_detect(captioner, photo):
    found = captioner.detect(photo)
    assert [(region.class_name, tuple(region.box)) for region in found] == [
        ("red", (0, 0, 20, 10)),
        ("green", (20, 0, 40, 10)),
        ("blue", (20, 10, 40, 20)),
    ]
    assert found[0].score == pytest.approx(220 / 255)
    assert captioner.detect(photo, limit=1) == found[:1]
    assert captioner.detect_images([]) == []
    again = captioner.caption(photo, [found[2], found[0]])
    assert [each.regions[0] for each in again.control.region_sets] == [found[2], found[0]], (
        "proposals can be passed as regions"
    )
    with pytest.raises(InputError, match="limit is 0"):
        captioner.detect(photo, limit=0)


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        pytest.param([], "the control is empty", id="none"),
        pytest.param([[]], "has 0 numbers", id="a box of nothing"),
        pytest.param([(0, 0, 49, 20)], r"the image: box \(0.0, 0.0, 49.0, 20.0\) leaves the image", id="outside"),
        pytest.param([(-9, 0, 4, 20)], "leaves the image", id="outside on the left"),
        pytest.param([LEFT, [(0, 0, 5, 5), (0, 0, 5, 29)]], "leaves the image", id="one of a set outside"),
        pytest.param([(9, 0, 4, 20)], "inverted or empty", id="inverted"),
        pytest.param([(0, 0, float("nan"), 20)], "not finite", id="not a number"),
        pytest.param([(0, 0, 9)], "has 3 numbers", id="three numbers"),
        pytest.param(
            [(0.1, 0.1, 0.5, 0.5)], "not fractions .relative=True, or --relative", id="fractions of the image"
        ),
    ],
)
def test_bad_boxes_are_refused(captioner, photo, regions, message):
    with pytest.raises(InputError, match=message):
        captioner.caption(photo, regions)


def test_a_box_may_touch_the_edge(captioner, photo):
    assert boxes(captioner.caption(photo, [(0, 0, 40, 20)])) == [[(0, 0, 40, 20)]]


def test_boxes_slightly_outside_are_clipped_with_one_warning(captioner, photo, caplog):
    assert boxes(captioner.caption(photo, [(-3, 0, 9, 21), (9, 0, 44, 20)])) == [[(0, 0, 9, 20)], [(9, 0, 40, 20)]]
    assert caplog.messages == ["the image: clipped boxes to the image, 40 x 20 pixels"]


def test_a_set_without_a_sorter_is_refused(captioner, photo):
    with pytest.raises(InputError, match="the bundle has no sorter"):
        captioner.caption(photo, [LEFT, RIGHT], ordered=False)


def test_files_that_are_no_images_are_refused(captioner, tmp_path):
    (tmp_path / "text.jpg").write_text("no image")
    with pytest.raises(InputError, match=r"text\.jpg"):
        captioner.caption(tmp_path / "text.jpg")


def test_a_bundle_without_a_vision_encoder_is_refused(photo):
    for call in (lambda blind: blind.caption(photo), lambda blind: blind.detect(photo)):
        with pytest.raises(InputError, match="the bundle has no vision encoder: use one that has"):
            call(make_captioner(vision=None))


def test_a_vision_encoder_of_another_feature_size_is_refused():
    with pytest.raises(InputError, match="outputs 5-d features, the model expects 6-d"):
        make_captioner(vision=ColorVision(5))


@pytest.mark.parametrize(
    ("image_feature", "message"),
    [
        pytest.param(np.zeros(5, np.float32), r"image_feature has shape \(5,\)", id="short"),
        pytest.param(np.full(FEATURE_SIZE, np.inf), "image_feature has values", id="infinite"),
    ],
)
def test_a_bad_image_feature_is_refused(captioner, photo, image_feature, message):
    control = Control((RegionSet((captioner.detect(photo)[0],)),))
    with pytest.raises(InputError, match=message):
        captioner.caption_batch([RegionRequest(control, image_feature=image_feature)])
