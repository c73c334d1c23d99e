"""The systems that the paper compares with (section 4.3), each by the contract that ours keeps (``sct.model.system``).

To import this room makes them known by their names: recipes, bundles and all that decodes, trains and evaluates then
take them like ours.
"""

from sct.baselines.ag_cvae import AgCvae, AgCvaeConfig
from sct.baselines.baby_talk import BabyTalk, BabyTalkConfig
from sct.baselines.controllable_lstm import ControllableLstm
from sct.baselines.fc_2k import Fc2k
from sct.baselines.manners import ManneredSystem
from sct.baselines.parts_of_speech import PosCaptioner, PosConfig
from sct.baselines.plain_speaker import PlainSpeaker
from sct.baselines.up_down import UpDown
from sct.model.config import CaptionerConfig
from sct.model.systems import SystemKind, enter

__all__ = [
    "AgCvae",
    "AgCvaeConfig",
    "BabyTalk",
    "BabyTalkConfig",
    "ControllableLstm",
    "Fc2k",
    "ManneredSystem",
    "PlainSpeaker",
    "PosCaptioner",
    "PosConfig",
    "UpDown",
]

enter("controllable_lstm", SystemKind(CaptionerConfig, ControllableLstm))
enter("controllable_up_down", SystemKind(CaptionerConfig, UpDown))
enter("fc_2k", SystemKind(CaptionerConfig, Fc2k))
enter("neural_baby_talk", SystemKind(BabyTalkConfig, BabyTalk))
enter("ag_cvae", SystemKind(AgCvaeConfig, AgCvae))
enter("pos", SystemKind(PosConfig, PosCaptioner))
enter("up_down", SystemKind(CaptionerConfig, UpDown))
