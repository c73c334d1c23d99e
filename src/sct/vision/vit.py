"""A vision transformer: patches of an image, each seen in the light of all others."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """Sizes of a vision transformer; the defaults are those of DINOv2's small one."""

    patch: int = 14
    """Pixels of a patch's side."""
    width: int = 384
    heads: int = 6
    depth: int = 12
    grid: int = 37
    """Patches of a side that positions were learned for; other grids take them interpolated."""


class VisionTransformer(nn.Module):
    """Turns a square image into one vector for each patch and one for the whole."""

    def __init__(self, config: TransformerConfig, *, drop_path: float = 0.0) -> None:
        """``drop_path``: how often training leaves a branch of the last block out, rising from none at the first."""
        super().__init__()
        self.config = config
        width = config.width
        self.patches = nn.Conv2d(3, width, config.patch, stride=config.patch)
        self.class_token = nn.Parameter(torch.zeros(width))
        self.class_position = nn.Parameter(torch.zeros(width))
        self.positions = nn.Parameter(torch.randn(config.grid, config.grid, width) * 0.02)
        last = max(config.depth - 1, 1)
        self.blocks = nn.ModuleList(
            _Block(width, config.heads, drop_path * number / last) for number in range(config.depth)
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, images: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images tokens width"]:
        """Vectors of the image (token 0) and of its patches, row by row."""
        patches = self.patches(images)
        rows, columns = patches.shape[-2:]
        tokens = patches.flatten(2).transpose(1, 2) + self._positions(rows, columns)
        whole = (self.class_token + self.class_position).expand(len(tokens), 1, -1)
        tokens = torch.cat([whole.to(tokens.dtype), tokens], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        normed: Tensor = self.norm(tokens)
        return normed

    def _positions(self, rows: int, columns: int) -> Float[Tensor, "patches width"]:
        learned = self.positions.permute(2, 0, 1)[None]
        if learned.shape[-2:] != (rows, columns):
            learned = F.interpolate(learned, (rows, columns), mode="bicubic", align_corners=False)
        return learned[0].flatten(1).T


class _Block(nn.Module):
    """Attention among all tokens, then a small network on each; both scaled and added."""

    def __init__(self, width: int, heads: int, drop_path: float) -> None:
        super().__init__()
        self.heads, self.drop_path = heads, drop_path
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale1, self.scale2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))

    def forward(self, tokens: Float[Tensor, "images tokens width"]) -> Float[Tensor, "images tokens width"]:
        tokens = tokens + self._kept(self.scale1 * self._attend(self.norm1(tokens)))
        changed: Tensor = self.scale2 * self.down(F.gelu(self.up(self.norm2(tokens))))
        return tokens + self._kept(changed)

    def _attend(self, tokens: Float[Tensor, "images tokens width"]) -> Float[Tensor, "images tokens width"]:
        images, count, width = tokens.shape
        parts = self.qkv(tokens).view(images, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        out: Tensor = self.out(attended.transpose(1, 2).reshape(images, count, width))
        return out

    def _kept(self, branch: Float[Tensor, "images tokens width"]) -> Float[Tensor, "images tokens width"]:
        """In training, leave the branch out for some images (stochastic depth)."""
        if not self.training or not self.drop_path:
            return branch
        keep = torch.rand(len(branch), 1, 1, device=branch.device) >= self.drop_path
        return branch * keep.to(branch.dtype) / (1 - self.drop_path)
