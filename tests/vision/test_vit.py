import torch

from sct.vision.vit import TransformerConfig, VisionTransformer

CONFIG = TransformerConfig(patch=4, width=24, heads=2, depth=3, grid=5)


def test_positions_of_its_own_grid_are_taken_as_they_are() -> None:
    torch.manual_seed(1)
    network = VisionTransformer(CONFIG).eval()
    image = torch.randn(1, 3, 20, 20)
    before = network(image)
    with torch.no_grad():
        network.positions[0, 1] += 1  # of the second patch alone
    changed = (network.patches(image).flatten(2).transpose(1, 2) + network._positions(5, 5))[0]
    assert before.shape == (1, 26, 24)
    assert torch.allclose(changed[1] - network.patches(image).flatten(2)[0, :, 1], network.positions[0, 1])
    assert not torch.allclose(network(image), before)


def test_other_grids_take_them_interpolated() -> None:
    network = VisionTransformer(CONFIG).eval()
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 65, 24)


def test_stochastic_depth_leaves_branches_out_in_training_alone() -> None:
    torch.manual_seed(1)
    network = VisionTransformer(CONFIG, drop_path=0.9)
    image = torch.randn(1, 3, 20, 20)
    assert not torch.equal(network(image), network(image))
    network.eval()
    assert torch.equal(network(image), network(image))
