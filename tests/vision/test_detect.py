from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from sct.regions.image_source import ImageSource
from sct.vision.detect import check_region_encoder, detect_images
from sct.vision.encoder import RegionVisionEncoder
from sct.vision.region_network import RegionEncoder
from tests.color_vision import ColorVision
from tests.factories import CLASS_NAMES, make_image_files, make_region_network, make_vision_encoder

CPU = torch.device("cpu")


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
