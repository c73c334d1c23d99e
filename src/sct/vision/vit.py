"""Vision transformer with LayerScale and stochastic depth (DINOv2's architecture)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class ViTConfig:
    """Sizes of a vision transformer; the defaults are DINOv2 ViT-S/14."""

    patch_size: int = 14
    """Side of a patch in pixels."""
    width: int = 384
    num_heads: int = 6
    depth: int = 12
    grid_size: int = 37
    """Side of the patch grid that position embeddings were learned for; they are interpolated for other grids."""


class VisionTransformer(nn.Module):
    """Encodes an image into a CLS token and one token per patch."""

    def __init__(self, config: ViTConfig, *, drop_path: float = 0.0) -> None:
        """``drop_path`` is the stochastic depth rate of the last block; it grows linearly from 0 at the first."""
        super().__init__()
        self.config = config
        width = config.width
        self.patch_embed = nn.Conv2d(3, width, config.patch_size, stride=config.patch_size)
        self.cls_token = nn.Parameter(torch.zeros(width))
        self.cls_pos_embed = nn.Parameter(torch.zeros(width))
        self.pos_embed = nn.Parameter(torch.randn(config.grid_size, config.grid_size, width) * 0.02)
        last = max(config.depth - 1, 1)
        self.blocks = nn.ModuleList(
            _Block(width, config.num_heads, drop_path * number / last) for number in range(config.depth)
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, images: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images tokens width"]:
        """Return the CLS token (index 0) and the patch tokens, row by row."""
        patches = self.patch_embed(images)
        rows, columns = patches.shape[-2:]
        tokens = patches.flatten(2).transpose(1, 2) + self._position_embeddings(rows, columns)
        cls = (self.cls_token + self.cls_pos_embed).expand(len(tokens), 1, -1)
        tokens = torch.cat([cls.to(tokens.dtype), tokens], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        normed: Tensor = self.norm(tokens)
        return normed

    def _position_embeddings(self, rows: int, columns: int) -> Float[Tensor, "patches width"]:
        embeddings = self.pos_embed.permute(2, 0, 1)[None]
        if embeddings.shape[-2:] != (rows, columns):
            embeddings = F.interpolate(embeddings, (rows, columns), mode="bicubic", align_corners=False)
        return embeddings[0].flatten(1).T


class _Block(nn.Module):
    """Self-attention and an MLP, each with pre-norm, LayerScale and a residual connection."""

    def __init__(self, width: int, num_heads: int, drop_path: float) -> None:
        super().__init__()
        self.num_heads, self.drop_path = num_heads, drop_path
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.ls1, self.ls2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))

    def forward(self, tokens: Float[Tensor, "images tokens width"]) -> Float[Tensor, "images tokens width"]:
        tokens = tokens + self._drop_path(self.ls1 * self._attention(self.norm1(tokens)))
        mlp: Tensor = self.ls2 * self.fc2(F.gelu(self.fc1(self.norm2(tokens))))
        return tokens + self._drop_path(mlp)

    def _attention(self, tokens: Float[Tensor, "images tokens width"]) -> Float[Tensor, "images tokens width"]:
        images, count, width = tokens.shape
        qkv = self.qkv(tokens).view(images, count, 3, self.num_heads, width // self.num_heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        projected: Tensor = self.proj(attended.transpose(1, 2).reshape(images, count, width))
        return projected

    def _drop_path(self, branch: Float[Tensor, "images tokens width"]) -> Float[Tensor, "images tokens width"]:
        """In training, zero the residual branch of random images (stochastic depth)."""
        if not self.training or not self.drop_path:
            return branch
        keep = torch.rand(len(branch), 1, 1, device=branch.device) >= self.drop_path
        return branch * keep.to(branch.dtype) / (1 - self.drop_path)
