"""Backbones of the hub as networks that see regions."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sct.errors import InputError
from sct.vision.encoder import normalised
from sct.vision.hub_backbone import HubNetwork
from sct.vision.hub_loading import fetch_backbone
from sct.vision.interface import RegionNetwork
from tests.tiny_hub import (
    IMAGENET_STD,
    MEAN,
    save_backbone,
    save_convolutions,
    save_detector,
    save_encoder,
    save_two_tower,
)
from tests.tiny_hub import transformers as library

WHOLE = [0.0, 0.0, 1.0, 1.0]


def _network(folder: Path, side: int | None = None) -> HubNetwork:
    return HubNetwork(fetch_backbone(str(folder), None), folder.name, side)


def _pixels(side: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, 256, (2, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def test_no_boxes_give_no_features(tmp_path: Path) -> None:
    network = _network(save_backbone(tmp_path / "dino"))
    assert isinstance(network, RegionNetwork)
    maps = network.look(normalised(_pixels(56)))
    assert network.features(maps, torch.zeros(2, 0, 4)).shape == (2, 0, 24)


@pytest.mark.parametrize(
    ("save", "side", "shape"),
    [
        pytest.param(save_backbone, 56, (24, 4, 4), id="a backbone of patches, 60 pixels are four and a rest"),
        pytest.param(save_convolutions, 64, (20, 2, 2), id="a backbone of convolutions"),
        pytest.param(save_encoder, 32, (24, 4, 4), id="an encoder with a token for the whole"),
        pytest.param(save_two_tower, 32, (24, 4, 4), id="the seeing half of a model that reads too"),
    ],
)
def test_sizes_are_the_backbones_own(save, side: int, shape: tuple, tmp_path: Path) -> None:
    network = _network(save(tmp_path / "model"))
    assert (network.side, network.feature_size) == (side, shape[0])
    maps = network.look(normalised(_pixels(side)))
    assert maps.shape == (2, *shape)
    found = network.features(maps, torch.tensor([[WHOLE, [0.1, 0.2, 0.4, 0.9]]] * 2))
    assert found.shape == (2, 2, shape[0])
    torch.testing.assert_close(found.mean(-1), torch.zeros(2, 2), atol=1e-5, rtol=0)
    assert not torch.allclose(found[:, 0], found[:, 1])


@pytest.mark.parametrize("save", [save_backbone, save_encoder, save_convolutions], ids=["dino", "vit", "convnext"])
def test_other_sides_may_be_asked_for(save, tmp_path: Path) -> None:
    network = _network(save(tmp_path / "model"), side=112)
    assert (
        network.look(normalised(_pixels(112))).shape[-1]
        == {24: 112 // (network.patch or 1), 20: 112 // 32}[network.feature_size]
    )


def test_the_map_is_what_the_model_makes_of_its_own_preparation(tmp_path: Path) -> None:
    folder = save_backbone(tmp_path / "dino")
    pixels = _pixels(56)
    model = library.Dinov2Backbone.from_pretrained(folder).eval()
    coloured = (pixels / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(IMAGENET_STD).view(3, 1, 1)
    with torch.no_grad():
        expected = model(coloured).feature_maps[-1]
    torch.testing.assert_close(_network(folder).look(normalised(pixels)), expected, atol=1e-4, rtol=1e-4)


def test_tokens_lie_where_their_patches_do(tmp_path: Path) -> None:
    network = _network(save_encoder(tmp_path / "vit"))
    before = torch.zeros(1, 3, 32, 32)
    after = before.clone()
    after[:, :, 8:16, 24:32] = 3.0  # row 1, column 3
    changed = (network.look(after) - network.look(before)).abs().sum(1)[0]
    assert divmod(int(changed.argmax()), 4) == (1, 3)


def test_a_processor_may_turn_colours_round_and_leave_them_as_they_are(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "vit")
    pixels = _pixels(32)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings |= {"do_flip_channel_order": True, "do_normalize": False}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    fetched = fetch_backbone(str(folder), None)
    fetched.processor.do_flip_channel_order = True  # as that of MobileViT, which alone knows the word
    seen = HubNetwork(fetched, "vit").look(normalised(pixels))
    with torch.no_grad():
        expected = fetched.model(pixels.flip(1) / 255).last_hidden_state[:, 1:]
    torch.testing.assert_close(seen.flatten(2).transpose(1, 2), expected, atol=1e-4, rtol=1e-4)


def test_images_reach_the_model_as_its_own_processor_would_bring_them(tmp_path: Path) -> None:
    network = _network(save_backbone(tmp_path / "dino"))
    pixels = _pixels(56)[:1]
    processor = library.AutoImageProcessor.from_pretrained(tmp_path / "dino")
    image = Image.fromarray(np.ascontiguousarray(pixels[0].permute(1, 2, 0).numpy()))
    given = processor(images=image, do_resize=False, do_center_crop=False, return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(normalised(pixels) * network.scale + network.shift, given, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("save", "side", "message"),
    [
        pytest.param(save_backbone, 60, "patches of backbone 'model' have 14 pixels a side.* such as 56", id="a rest"),
        pytest.param(save_convolutions, 4, "cannot see an image of 4 x 4", id="too small"),
        pytest.param(save_detector, None, "cannot be had .it is a detector", id="a detector"),
    ],
)
def test_what_cannot_see_is_refused(save, side: int | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        _network(save(tmp_path / "model"), side)
