import torch

from sct.vision.vit import VisionTransformer, ViTConfig

CONFIG = ViTConfig(patch_size=4, width=24, num_heads=2, depth=3, grid_size=5)


def test_position_embeddings_of_the_learned_grid_are_not_interpolated() -> None:
    torch.manual_seed(1)
    network = VisionTransformer(CONFIG).eval()
    image = torch.randn(1, 3, 20, 20)
    before = network(image)
    with torch.no_grad():
        network.pos_embed[0, 1] += 1  # of the second patch only
    patches = network.patch_embed(image).flatten(2).transpose(1, 2)[0]
    assert before.shape == (1, 26, 24)
    assert torch.allclose(network._position_embeddings(5, 5)[1], network.pos_embed[0, 1])
    assert network._position_embeddings(5, 5).shape == patches.shape
    assert not torch.allclose(network(image), before)


def test_position_embeddings_are_interpolated_for_other_grids() -> None:
    network = VisionTransformer(CONFIG).eval()
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 65, 24)


def test_stochastic_depth_drops_branches_in_training_only() -> None:
    torch.manual_seed(1)
    network = VisionTransformer(CONFIG, drop_path=0.9)
    image = torch.randn(1, 3, 20, 20)
    assert not torch.equal(network(image), network(image))
    network.eval()
    assert torch.equal(network(image), network(image))
