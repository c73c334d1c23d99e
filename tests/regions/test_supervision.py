"""supervision.Detections in and out, with the real package where it is installed."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from sct.captioner.grounded_caption import CaptionWord, GroundedCaption, GroundedChunk
from sct.errors import InputError
from sct.regions import Box, Control, Region, RegionSet
from sct.regions.parsing import as_control
from sct.regions.supervision import regions_from_supervision, regions_to_supervision

BOXES = np.array([[0, 0, 9, 9], [3.5, 1, 20, 8]], np.float32)


@pytest.fixture
def supervision():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends OpenCV
        return pytest.importorskip("supervision")


def test_regions_from_detections(supervision):
    detections = supervision.Detections(
        xyxy=BOXES, confidence=np.array([0.5, 0.25]), class_id=np.array([1, 0]), data={"class_name": ["dog", "cat"]}
    )
    expected = (Region(Box(0, 0, 9, 9), "dog", 0.5), Region(Box(3.5, 1, 20, 8), "cat", 0.25))
    assert regions_from_supervision(detections) == expected
    control = as_control(detections, ordered=False)
    assert control == Control.from_supervision(detections, ordered=False)
    assert [each.regions for each in control.region_sets] == [(region,) for region in expected]


def test_detections_without_scores_and_names(supervision):
    assert regions_from_supervision(supervision.Detections(xyxy=BOXES)) == tuple(
        Region(Box(*box)) for box in BOXES.tolist()
    )
    with pytest.raises(InputError, match="the control is empty"):
        Control.from_supervision(supervision.Detections.empty())


def test_regions_to_detections_and_back(supervision):
    regions = (Region(Box(0, 0, 9, 9), "dog", 0.5), Region(Box(3.5, 1, 20, 8), "cat", 0.25))
    detections = regions_to_supervision(regions)
    assert detections.class_id.tolist() == [1, 0]
    assert regions_from_supervision(detections) == regions
    assert len(regions_to_supervision([])) == 0
    assert regions_from_supervision(detections[detections.confidence > 0.3]) == regions[:1]


def test_caption_to_detections(supervision):
    control = Control(
        (RegionSet((Region(Box(0, 0, 9, 9)), Region(Box(9, 0, 18, 9)))), RegionSet((Region(Box(3, 1, 20, 8)),)))
    )
    words = tuple(CaptionWord(text, 0, (1.0,), 0.0, 0.0) for text in ("two", "dogs"))
    caption = GroundedCaption(words, (GroundedChunk("two dogs", (0, 2), 0),), -1.0, control=control)
    detections = caption.to_supervision()
    assert detections.data["chunk"].tolist() == ["two dogs", "two dogs", ""]
    assert detections.data["region_set"].tolist() == [0, 0, 1]
    with pytest.raises(InputError, match="has no control"):
        GroundedCaption(words, (), -1.0).to_supervision()


@pytest.mark.parametrize(
    ("detections", "message"),
    [
        pytest.param(7, "got int, expected a supervision.Detections", id="another type"),
        pytest.param(
            SimpleNamespace(xyxy=BOXES, confidence=[0.5], data={}), "2 boxes with 1 scores", id="a score short"
        ),
    ],
)
def test_bad_values_are_refused(detections, message):
    with pytest.raises(InputError, match=message):
        regions_from_supervision(detections)
