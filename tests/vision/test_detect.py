from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from sct.regions.image_source import ImageSource
from sct.vision.box_ops import nms
from sct.vision.detect import check_region_encoder, detect_images, nms_batch, nms_each, propose_batch
from sct.vision.encoder import RegionVisionEncoder, propose
from sct.vision.preprocess import normalize
from sct.vision.region_network import RegionEncoder
from tests.color_vision import ColorVision
from tests.factories import CLASS_NAMES, make_image_files, make_region_network, make_vision_encoder

CPU = torch.device("cpu")


def _network_with_varied_boxes(seed, map_scale=1):
    """Random weights that are large enough for boxes and scores to differ between images."""
    network = make_region_network(seed, map_scale=map_scale).eval()
    for layer in (network.rpn_head, network.box_head, network.objectness):
        torch.nn.init.normal_(layer.weight, std=0.2)
    return network


@pytest.mark.parametrize("suppress", [nms_each, nms_batch])
@pytest.mark.parametrize("limit", [1, 20, 500])
@pytest.mark.parametrize("map_scale", [1, 2])
def test_batched_proposals_equal_those_of_single_images(map_scale, limit, suppress, monkeypatch):
    monkeypatch.setattr("sct.vision.detect.nms_each", suppress)  # what a GPU uses too
    network = _network_with_varied_boxes(3, map_scale)
    pixels = torch.randint(0, 256, (5, 3, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        maps = network.encode_pixels(normalize(pixels))
    batched = propose_batch(network, maps, limit)
    for image, expected in enumerate(propose(network, maps, limit)):
        found = batched.is_proposal[image]
        assert int(found.sum()) == len(expected.boxes)
        torch.testing.assert_close(batched.scores[image][found], expected.scores, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(batched.boxes[image][found], expected.boxes, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("suppress", [nms_each, nms_batch])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.75])
def test_batched_nms_equals_greedy_nms(threshold, suppress):
    generator = torch.Generator().manual_seed(2)
    corners, sizes = torch.rand(70, 60, 2, generator=generator), torch.rand(70, 60, 2, generator=generator)
    boxes, scores = torch.cat([corners, corners + sizes], dim=-1), torch.rand(70, 60, generator=generator)
    is_box = torch.rand(70, 60, generator=generator) < 0.8
    kept = suppress(boxes, scores, is_box, threshold, 12)
    for image in range(len(boxes)):
        rows = torch.nonzero(is_box[image]).squeeze(1)
        expected = rows[nms(boxes[image][rows], scores[image][rows], threshold, 12)]
        assert kept.indices[image][kept.is_kept[image]].tolist() == expected.tolist()


@pytest.mark.parametrize("suppress", [nms_each, nms_batch])
def test_nms_without_a_box(suppress):
    kept = suppress(torch.zeros(1, 3, 4), torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool), 0.5, 2)
    assert not kept.is_kept.any()


def test_detections_of_a_folder(tmp_path):
    for name, size in (("a.png", (40, 20)), ("b.png", (30, 60)), ("c.png", (50, 50))):
        noise = np.random.default_rng(size[0]).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / name)
    (tmp_path / "bad.png").write_bytes(b"no image")
    source, errors = ImageSource.open(tmp_path), []
    encoder = make_vision_encoder()
    batches = list(
        detect_images(encoder, source, source.names, limit=7, batch_size=2, device=CPU, on_error=errors.append)
    )
    assert [name for batch in batches for name in batch.image_ids] == ["a.png", "b.png", "c.png"]
    assert len(errors) == 1
    assert "bad.png" in str(errors[0])
    assert batches[0].sizes[0].tolist() == [40, 20]
    [encoded] = encoder.encode([source.load("a.png")])
    regions = encoded.proposals[:7]
    assert batches[0].counts[0] == len(regions)
    for row, region in enumerate(regions):
        np.testing.assert_allclose(batches[0].boxes[row] * [40, 20, 40, 20], region.box, atol=1e-3)
        assert encoder.class_names[batches[0].class_ids[row, 0]] == region.class_name
    assert batches[0].class_ids.shape[1] == 3
    assert batches[0].word_ids.shape == (len(batches[0].boxes), 0)


def test_only_encoders_with_probabilities():
    assert isinstance(check_region_encoder(make_vision_encoder()), RegionVisionEncoder)
    with pytest.raises(Exception, match="got a ColorVision, expected an encoder that sct train has made"):
        check_region_encoder(ColorVision())


def test_words_of_regions(tmp_path):
    network = RegionEncoder(replace(make_region_network().config, num_words=4)).eval()
    encoder = RegionVisionEncoder(network, CLASS_NAMES, words=("a", "b", "c", "d"))
    source = ImageSource.open(make_image_files(tmp_path / "images"))
    [batch] = detect_images(encoder, source, source.names, limit=3, batch_size=8, device=CPU, on_error=pytest.fail)
    assert batch.word_ids.shape == batch.word_probabilities.shape == (len(batch.boxes), 4)
    assert (np.diff(batch.word_probabilities, axis=1) <= 0).all()
