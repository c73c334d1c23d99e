import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sct.errors import InputError
from sct.regions.images import LoadedImage
from sct.regions.records import Box
from sct.vision.encoder import FORMAT, RegionVisionEncoder, load_vision
from sct.vision.interface import VisionEncoder
from sct.vision.region_network import RegionEncoder
from tests.color_vision import ColorVision, paint_quarters
from tests.factories import CLASS_NAMES, make_region_network, make_vision_encoder

BOXES = [Box(1.0, 2.0, 20.0, 33.5), Box(0.0, 0.0, 30.0, 60.0)]


def _image(seed: int, width: int = 120, height: int = 90) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(pixels, width, height, f"image {seed}")


@pytest.mark.parametrize("vision", [make_vision_encoder(), ColorVision()], ids=["region encoder", "colors"])
def test_implements_the_interface(vision: VisionEncoder) -> None:
    assert isinstance(vision, VisionEncoder)
    assert vision.encode([]) == []


def test_keeps_name_and_size_of_the_image() -> None:
    [encoded] = make_vision_encoder().encode([_image(1)])
    assert (encoded.name, encoded.width, encoded.height) == ("image 1", 120, 90)


def test_proposals_without_boxes() -> None:
    [encoded] = make_vision_encoder().encode([_image(1)])
    assert encoded.regions([]) == ()
    assert 0 < len(encoded.proposals) <= 30
    assert encoded.image_feature.shape == (16,)


def test_regions_are_in_the_order_of_the_boxes_with_feature_and_class() -> None:
    boxes = [Box(0, 0, 120, 90), Box(10.5, 20, 60, 70)]
    [encoded] = make_vision_encoder().encode([_image(1)])
    regions = encoded.regions(boxes)
    assert [region.box for region in regions] == boxes
    assert all(region.class_name in CLASS_NAMES and region.feature.shape == (16,) for region in regions)
    # The image feature is that of the box around the image.
    np.testing.assert_allclose(regions[0].feature, encoded.image_feature, rtol=1e-5, atol=1e-6)
    assert not np.allclose(regions[1].feature, encoded.image_feature)


def test_proposals_are_inside_the_image_highest_score_first() -> None:
    [encoded] = make_vision_encoder().encode([_image(2, 300, 50)])
    for region in encoded.proposals:
        region.box.check_inside(300, 50, overhang=1e-3)
    scores = [region.score for region in encoded.proposals]
    assert scores == sorted(scores, reverse=True)


def _varied_vision_encoder() -> RegionVisionEncoder:
    """Encoder whose images differ in boxes, scores, attributes and number of proposals."""
    torch.manual_seed(3)
    network = RegionEncoder(replace(make_region_network().config, num_words=4))
    for layer in (network.rpn_head, network.box_head, network.objectness, network.word_head):
        torch.nn.init.normal_(layer.weight, std=0.2)
    torch.nn.init.zeros_(network.word_head.bias)
    words = ("red", "wooden", "dog", "blue")
    return RegionVisionEncoder(network, CLASS_NAMES, words=words, attributes=frozenset(words), num_proposals=200)


def test_a_batch_equals_single_images() -> None:
    plain = LoadedImage(np.full((60, 60, 3), 128, np.uint8), 60, 60, "plain")
    vision, images = _varied_vision_encoder(), [_image(1), _image(2, 40, 200), _image(3), plain]
    boxes = [[Box(1, 2, 30, 40)], [], [Box(5, 5, 50, 50), Box(0, 0, 10, 10)], []]
    batch, single = vision.encode(images), [vision.encode([image])[0] for image in images]
    assert len({len(encoded.proposals) for encoded in batch}) > 1, "some images are padded"
    for asked, encoded, alone in zip(boxes, batch, single, strict=True):
        np.testing.assert_allclose(encoded.image_feature, alone.image_feature, atol=1e-5)
        for region, expected in zip(
            (*encoded.proposals, *encoded.regions(asked)), (*alone.proposals, *alone.regions(asked)), strict=True
        ):
            np.testing.assert_allclose(region.box, expected.box, atol=1e-3)
            np.testing.assert_allclose(region.feature, expected.feature, atol=1e-4)
            assert region.score == pytest.approx(expected.score, abs=1e-5)
            assert (region.class_name, region.attributes) == (expected.class_name, expected.attributes)


def test_proposals_have_the_features_of_their_boxes() -> None:
    [_, encoded] = _varied_vision_encoder().encode([_image(1), _image(2, 40, 200)])
    regions = encoded.regions([region.box for region in encoded.proposals])
    for region, expected in zip(regions, encoded.proposals, strict=True):
        np.testing.assert_allclose(region.feature, expected.feature, atol=1e-4)
        assert (region.class_name, region.attributes) == (expected.class_name, expected.attributes)


def test_an_encoded_image_does_not_keep_its_batch_in_memory() -> None:
    vision, image = make_vision_encoder(), _image(1)
    [alone], [first, *_] = vision.encode([image]), vision.encode([image] * 8)
    assert first.num_bytes == alone.num_bytes
    for feature in (first.image_feature, first.proposals[0].feature):
        assert feature.base.nbytes < 2 * (1 + len(first.proposals)) * feature.nbytes


def test_the_backbone_runs_once_per_image_whatever_boxes_are_asked_for(monkeypatch) -> None:
    vision, calls = make_vision_encoder(), []
    encode_pixels = vision.network.encode_pixels
    monkeypatch.setattr(
        vision.network, "encode_pixels", lambda pixels: calls.append(len(pixels)) or encode_pixels(pixels)
    )
    colors = ((200, 0, 0), (0, 200, 0), (128, 128, 128), (0, 0, 200))
    images = [
        LoadedImage(paint_quarters(*colors), 400, 200, "one"),
        LoadedImage(paint_quarters(*colors, width=30, height=60), 30, 60, "two"),
    ]
    encoded = vision.encode(images)
    for image in encoded:
        assert image.regions(BOXES)[0].feature == pytest.approx(image.regions(BOXES[:1])[0].feature, abs=1e-5)
    assert calls == [2]
    grid = (84 // 14) ** 2
    assert encoded[0].num_bytes > 4 * (24 * grid + 8 * grid), "at least its feature maps"


def test_boxes_are_in_pixels_of_the_original_image() -> None:
    small = _image(1)
    large = LoadedImage(small.pixels, 1200, 900, "ten times as large")
    [first], [second] = make_vision_encoder().encode([small]), make_vision_encoder().encode([large])
    [region], [scaled] = first.regions([Box(10, 20, 60, 70)]), second.regions([Box(100, 200, 600, 700)])
    np.testing.assert_allclose(region.feature, scaled.feature, atol=1e-6)
    assert second.proposals[0].box.x2 == pytest.approx(10 * first.proposals[0].box.x2, rel=1e-5)


def test_saved_encoders_give_almost_the_same_features(tmp_path: Path) -> None:
    vision = make_vision_encoder()
    vision.save(tmp_path / "vision.safetensors")
    loaded = load_vision(tmp_path / "vision.safetensors")
    assert loaded.class_names == CLASS_NAMES
    [before], [after] = (each.encode([_image(1)]) for each in (vision, loaded))
    np.testing.assert_allclose(after.image_feature, before.image_feature, atol=0.1)
    assert np.corrcoef(after.image_feature, before.image_feature)[0, 1] > 0.999
    assert torch.equal(loaded.network.anchors, vision.network.anchors)


def test_words_and_attributes(tmp_path: Path) -> None:
    """Attributes are the probable words that are adjectives, best first; they are saved with the encoder."""
    torch.manual_seed(1)
    config = replace(make_region_network().config, num_words=4, map_scale=2, roi_size=3)
    network = RegionEncoder(config)
    torch.nn.init.zeros_(network.word_head.weight)
    network.word_head.bias.data = torch.tensor([1.0, 2.0, 3.0, -3.0])
    words, attributes = ("red", "wooden", "dog", "blue"), frozenset({"red", "wooden", "blue"})
    vision = RegionVisionEncoder(network, CLASS_NAMES, words=words, attributes=attributes)
    vision.save(tmp_path / "vision.safetensors")
    loaded = load_vision(tmp_path / "vision.safetensors")
    assert (loaded.words, loaded.attributes, loaded.network.config) == (words, attributes, config)
    for encoder in (vision, vision.to("cpu"), loaded):
        [encoded] = encoder.encode([_image(1)])
        assert [region.attributes for region in encoded.regions(BOXES)] == [("wooden", "red")] * 2
        assert encoded.proposals[0].attributes == ("wooden", "red")
    with pytest.raises(InputError, match="got 0 words, expected 4"):
        RegionVisionEncoder(network, CLASS_NAMES)


def test_equal_encoders_are_equal_files(tmp_path: Path) -> None:
    contents = set()
    for number in range(4):
        make_vision_encoder().save(tmp_path / f"{number}")
        contents.add((tmp_path / f"{number}").read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize("content", [b"", b"x" * 100], ids=["empty", "noise"])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "vision.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"is damaged .*: train it again"):
        load_vision(tmp_path / "vision.safetensors")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("roi_norm.bias", torch.nan, id="NaN"),
        pytest.param("backbone.blocks.0.qkv.weight", -torch.inf, id="infinity"),
        pytest.param("class_embeddings", torch.nan, id="class embeddings"),
        pytest.param("backbone.pos_embed.scale", torch.nan, id="scale of int8"),
    ],
)
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, name: str, value: float) -> None:
    vision = make_vision_encoder()
    config = replace(vision.network.config, class_embedding_size=3)
    vision = RegionVisionEncoder(RegionEncoder(config), vision.class_names)
    vision.save(tmp_path / "vision.safetensors")
    metadata, tensors = FORMAT.load_tensors(tmp_path / "vision.safetensors", "pt")
    if name.endswith(".scale"):
        weight = name.removesuffix(".scale")
        tensors |= {weight: tensors[weight].to(torch.int8), name: torch.ones(len(tensors[weight]))}
    tensors[name].view(-1)[-1] = value
    FORMAT.save_tensors(tmp_path / "vision.safetensors", tensors, metadata)
    with pytest.raises(InputError, match=r"weight \S+ has values that are not finite"):
        load_vision(tmp_path / "vision.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"num_classes": 2**40}, "got num_classes 1099511627776, expected", id="classes"),
        pytest.param({"feature_size": 10**26}, "got feature_size an integer of 87 bits", id="overflow"),
        pytest.param({"feature_size": 60_000}, r"roi_fc1.weight is \(\d+, \d+\), expected \(60000, \d+\)", id="size"),
        pytest.param({"image_size": 10**6}, "got image_size 1000000, expected an integer from 1 to 2,048", id="image"),
        pytest.param({"vit.patch_size": 1, "image_size": 2000}, "patches in a row 2000, expected", id="patches"),
        pytest.param({"vit.depth": 10**9}, "got vit.depth 1000000000", id="depth"),
        pytest.param({"vit.depth": 200}, "fc1.weight is none, expected", id="fewer blocks"),
        pytest.param({"vit.num_heads": 7}, "expected a multiple of vit.num_heads, 7", id="heads"),
        pytest.param({"vit": 5}, "must be a mapping", id="no table"),
        pytest.param({"dropout": 2.0}, "got dropout 2.0", id="dropout"),
        pytest.param({"feature_size": True}, "got feature_size True", id="bool"),
    ],
)
def test_configs_that_do_not_fit_their_file_are_refused(tmp_path: Path, changes: dict, message: str) -> None:
    path = tmp_path / "vision.safetensors"
    make_vision_encoder().save(path)
    metadata, tensors = FORMAT.load_tensors(path, "pt")
    config = json.loads(metadata["config"])
    for key, value in changes.items():
        (config["vit"] if key.startswith("vit.") else config)[key.removeprefix("vit.")] = value
    FORMAT.save_tensors(path, tensors, {**metadata, "config": json.dumps(config)})
    with pytest.raises(InputError, match=message):
        load_vision(path)


@pytest.mark.parametrize("names", ['"dog"', "[1]", "{}", "[" * 50_000], ids=["text", "numbers", "object", "deep"])
def test_class_names_are_a_list_of_texts(tmp_path: Path, names: str) -> None:
    path = tmp_path / "vision.safetensors"
    make_vision_encoder().save(path)
    metadata, tensors = FORMAT.load_tensors(path, "pt")
    FORMAT.save_tensors(path, tensors, {**metadata, "class_names": names})
    with pytest.raises(InputError, match=r"is damaged .*its (list of )?classes"):
        load_vision(path)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"vision\.safetensors does not exist: expected a file of format 'sct region"):
        load_vision(tmp_path / "vision.safetensors")


@pytest.mark.parametrize(
    "config",
    ['{"num_classes": 1, "ears": 2, "vit": {}}', '{"num_classes": 1}', "{"],
    ids=["unknown", "missing", "no JSON"],
)
def test_files_with_another_config_are_refused(tmp_path: Path, config: str) -> None:
    path = tmp_path / "vision.safetensors"
    FORMAT.save_tensors(path, {"x": torch.zeros(1)}, {"config": config, "class_names": '["dog"]'})
    with pytest.raises(InputError, match="is damaged"):
        load_vision(path)


def test_class_names_must_fit_the_network() -> None:
    with pytest.raises(InputError, match="got 2 class names, expected 3"):
        RegionVisionEncoder(make_region_network(), ("dog", "man"))
