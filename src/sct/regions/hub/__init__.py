"""Other eyes: any backbone and any detector of the Hugging Face hub, by name (the extra ``hub``)."""

from sct.regions.hub.config import HubConfig
from sct.regions.hub.eye import HubEye, open_hub_vision, save_hub_vision

__all__ = ["HubConfig", "HubEye", "open_hub_vision", "save_hub_vision"]
