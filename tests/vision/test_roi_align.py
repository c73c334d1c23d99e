import pytest
import torch

from sct.vision.roi_align import roi_align

WHOLE = [0.0, 0.0, 1.0, 1.0]


def _ramp(rows: int, columns: int) -> torch.Tensor:
    """Channel 0 grows to the right, channel 1 downwards, each by the place relative to the image."""
    x = (torch.arange(columns) + 0.5) / columns
    y = (torch.arange(rows) + 0.5) / rows
    return torch.stack([x.expand(rows, -1), y[:, None].expand(-1, columns)])[None]


def test_no_boxes_give_no_rows() -> None:
    assert roi_align(torch.zeros(1, 3, 4, 4), torch.zeros(1, 0, 4), 2).shape == (1, 0, 3, 2, 2)


@pytest.mark.parametrize(
    "box",
    [[0.2, 0.3, 0.6, 0.9], [0.1, 0.1, 0.2, 0.15], [0.25, 0.25, 0.75, 0.75]],
    ids=["large", "smaller than a cell of the map", "middle"],
)
def test_a_ramp_is_read_exactly(box: list[float]) -> None:
    pooled = roi_align(_ramp(20, 30), torch.tensor([[box]]), 4)[0, 0]
    x1, y1, x2, y2 = box
    places = (torch.arange(4) + 0.5) / 4
    torch.testing.assert_close(pooled[0], (x1 + places * (x2 - x1)).expand(4, -1), atol=1e-4, rtol=0)
    torch.testing.assert_close(pooled[1], (y1 + places * (y2 - y1))[:, None].expand(-1, 4), atol=1e-4, rtol=0)


def test_each_image_is_read_from_its_own_map() -> None:
    maps = torch.stack([torch.full((2, 4, 4), 1.0), torch.full((2, 4, 4), 5.0)])
    pooled = roi_align(maps, torch.tensor([[WHOLE], [WHOLE]]), 2)
    assert pooled[0].unique().tolist() == [1.0]
    assert pooled[1].unique().tolist() == [5.0]


def test_the_edge_of_the_image_is_not_black() -> None:
    pooled = roi_align(torch.ones(1, 1, 4, 4), torch.tensor([[[0.0, 0.0, 0.02, 0.02], [0.98, 0.98, 1.0, 1.0]]]), 2)
    torch.testing.assert_close(pooled, torch.ones_like(pooled))
