"""A network that sees: features, names and proposals of regions from one pass over a picture."""

from sct.regions.sight.eye import Eye, load_vision
from sct.regions.sight.network import SightConfig, SightNetwork
from sct.regions.sight.seeing import NetworkVision, RegionNetwork
from sct.regions.sight.transformer import TransformerConfig

__all__ = ["Eye", "NetworkVision", "RegionNetwork", "SightConfig", "SightNetwork", "TransformerConfig", "load_vision"]
