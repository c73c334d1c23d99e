"""The systems that the paper compares with (section 4.3), each by the contract that ours keeps (``sct.model.system``).

To import this room makes them known by their names: recipes, bundles and all that decodes, trains and evaluates then
take them like ours. Each is imported itself when the first of its name is made: who captions with ours has no use for
them, and does not wait for them.
"""

from collections.abc import Callable
from importlib import import_module

from sct.model.config import CaptionerConfig
from sct.model.systems import SystemKind, enter


def _kind(module: str, system: str, config: str | None = None) -> Callable[[], SystemKind]:
    """How a system of a module of this room is made."""

    def load() -> SystemKind:
        found = import_module(f"sct.baselines.{module}")
        return SystemKind(getattr(found, config) if config else CaptionerConfig, getattr(found, system))

    return load


enter("controllable_lstm", _kind("controllable_lstm", "ControllableLstm"))
enter("controllable_up_down", _kind("up_down", "UpDown"))
enter("fc_2k", _kind("fc_2k", "Fc2k"))
enter("up_down", _kind("up_down", "UpDown"))
enter("neural_baby_talk", _kind("baby_talk", "BabyTalk", "BabyTalkConfig"))
enter("ag_cvae", _kind("ag_cvae", "AgCvae", "AgCvaeConfig"))
enter("pos", _kind("parts_of_speech", "PosCaptioner", "PosConfig"))
