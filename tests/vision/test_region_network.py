import pytest
import torch

from sct.vision.region_network import RegionEncoder
from tests.vision.tiny_sight import NAMES, tiny_network

BOXES = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.1, 0.2, 0.6, 0.5]]] * 2)


def _with_words() -> RegionEncoder:
    network = tiny_network(name_vector_size=2).eval()
    network.name_vectors.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    return network


def _images() -> torch.Tensor:
    return torch.randn(2, 3, 84, 84, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_without_class_words_captioners_get_looks_alone() -> None:
    network = tiny_network().eval()
    maps = network.look(_images())
    assert torch.equal(network.features(maps, BOXES), network.looks(maps, BOXES))
    assert "name_vectors" not in network.state_dict()  # files of networks without them stay as they were


@pytest.mark.parametrize(
    ("logits", "words"),
    [
        pytest.param([0.0, 0.0, 0.0], [1 / 3, 2 / 3], id="no name is likelier"),
        pytest.param([99.0, 0.0, 0.0], [1.0, 0.0], id="one name is sure"),
        pytest.param([50.0, 50.0, 0.0], [0.5, 1.0], id="two names"),
        pytest.param([0.0, 0.0, 99.0], [0.0, 0.0], id="a name without a vector"),
    ],
)
def test_class_words_are_weighed_by_how_likely_names_are(logits: list[float], words: list[float]) -> None:
    looks = torch.arange(16.0)
    told = _with_words().told(looks, torch.tensor(logits))
    assert torch.equal(told[:16], looks)
    torch.testing.assert_close(told[16:], torch.tensor(words))


@torch.no_grad()
def test_class_words_follow_looks_and_change_nothing_of_them() -> None:
    plain, network = tiny_network().eval(), _with_words()
    features = network.features(network.look(_images()), BOXES)
    assert features.shape == (2, 2, 16 + 2)
    looks = plain.looks(plain.look(_images()), BOXES)
    assert torch.equal(features[..., :16], looks)
    shares = plain.name(looks).softmax(-1)
    assert shares.shape[-1] == len(NAMES)
    torch.testing.assert_close(features[..., 16:], shares[..., :2] * torch.tensor([1.0, 2.0]))
