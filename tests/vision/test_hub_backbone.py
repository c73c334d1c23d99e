"""Hugging Face Hub backbones as region feature extractors."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sct.errors import InputError
from sct.vision.hub_backbone import HubBackbone
from sct.vision.hub_loading import load_backbone
from sct.vision.preprocess import normalize
from tests.vision.hub_models import (
    IMAGE_MEAN,
    IMAGE_STD,
    save_backbone,
    save_convolutions,
    save_detector,
    save_encoder,
    save_two_tower,
)
from tests.vision.hub_models import transformers as library

WHOLE = [0.0, 0.0, 1.0, 1.0]


def _network(folder: Path, image_size: int | None = None) -> HubBackbone:
    return HubBackbone(load_backbone(str(folder), None), folder.name, image_size)


def _pixels(side: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, 256, (2, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def test_no_boxes(tmp_path: Path) -> None:
    network = _network(save_backbone(tmp_path / "dino"))
    maps = network.encode_pixels(normalize(_pixels(56)))
    assert network.roi_features(maps, torch.zeros(2, 0, 4)).shape == (2, 0, 24)


@pytest.mark.parametrize(
    ("save", "side", "shape"),
    [
        pytest.param(save_backbone, 56, (24, 4, 4), id="patches, 60 pixels rounded down to four patches"),
        pytest.param(save_convolutions, 64, (20, 2, 2), id="convolutions"),
        pytest.param(save_encoder, 32, (24, 4, 4), id="encoder with a CLS token"),
        pytest.param(save_two_tower, 32, (24, 4, 4), id="vision tower of a vision-language model"),
    ],
)
def test_default_image_size_and_map_shape(save, side: int, shape: tuple, tmp_path: Path) -> None:
    network = _network(save(tmp_path / "model"))
    assert (network.image_size, network.feature_size) == (side, shape[0])
    maps = network.encode_pixels(normalize(_pixels(side)))
    assert maps.shape == (2, *shape)
    found = network.roi_features(maps, torch.tensor([[WHOLE, [0.1, 0.2, 0.4, 0.9]]] * 2))
    assert found.shape == (2, 2, shape[0])
    torch.testing.assert_close(found.mean(-1), torch.zeros(2, 2), atol=1e-5, rtol=0)
    assert not torch.allclose(found[:, 0], found[:, 1])


@pytest.mark.parametrize("save", [save_backbone, save_encoder, save_convolutions], ids=["dino", "vit", "convnext"])
def test_other_image_sizes(save, tmp_path: Path) -> None:
    network = _network(save(tmp_path / "model"), image_size=112)
    assert (
        network.encode_pixels(normalize(_pixels(112))).shape[-1]
        == {24: 112 // (network.patch_size or 1), 20: 112 // 32}[network.feature_size]
    )


def test_feature_map_equals_that_of_the_model_after_its_own_normalization(tmp_path: Path) -> None:
    folder = save_backbone(tmp_path / "dino")
    pixels = _pixels(56)
    model = library.Dinov2Backbone.from_pretrained(folder).eval()
    normalized = (pixels / 255 - torch.tensor(IMAGE_MEAN).view(3, 1, 1)) / torch.tensor(IMAGE_STD).view(3, 1, 1)
    with torch.no_grad():
        expected = model(normalized).feature_maps[-1]
    torch.testing.assert_close(_network(folder).encode_pixels(normalize(pixels)), expected, atol=1e-4, rtol=1e-4)


def test_tokens_are_arranged_as_their_patches(tmp_path: Path) -> None:
    network = _network(save_encoder(tmp_path / "vit"))
    before = torch.zeros(1, 3, 32, 32)
    after = before.clone()
    after[:, :, 8:16, 24:32] = 3.0  # row 1, column 3
    changed = (network.encode_pixels(after) - network.encode_pixels(before)).abs().sum(1)[0]
    assert divmod(int(changed.argmax()), 4) == (1, 3)


def test_channel_flip_and_no_normalization(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "vit")
    pixels = _pixels(32)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings |= {"do_flip_channel_order": True, "do_normalize": False}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    pretrained = load_backbone(str(folder), None)
    pretrained.processor.do_flip_channel_order = True  # as that of MobileViT, which alone knows the word
    seen = HubBackbone(pretrained, "vit").encode_pixels(normalize(pixels))
    with torch.no_grad():
        expected = pretrained.model(pixels.flip(1) / 255).last_hidden_state[:, 1:]
    torch.testing.assert_close(seen.flatten(2).transpose(1, 2), expected, atol=1e-4, rtol=1e-4)


def test_renormalized_pixels_equal_those_of_the_image_processor(tmp_path: Path) -> None:
    network = _network(save_backbone(tmp_path / "dino"))
    pixels = _pixels(56)[:1]
    processor = library.AutoImageProcessor.from_pretrained(tmp_path / "dino")
    image = Image.fromarray(np.ascontiguousarray(pixels[0].permute(1, 2, 0).numpy()))
    given = processor(images=image, do_resize=False, do_center_crop=False, return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(normalize(pixels) * network.scale + network.shift, given, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("save", "side", "message"),
    [
        pytest.param(
            save_backbone,
            60,
            "expected a multiple of the patch size 14 of backbone 'model': use 56",
            id="not a multiple of the patch size",
        ),
        pytest.param(save_convolutions, 4, "cannot encode an image of 4 x 4", id="too small"),
        pytest.param(save_detector, None, "cannot be loaded .it is a detector", id="a detector"),
    ],
)
def test_unsuitable_backbones_are_refused(save, side: int | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        _network(save(tmp_path / "model"), side)
