"""Put a captioner together: the paper's model and its two ablations are three assemblies of the same parts."""

from sct.model.config import CaptionerConfig
from sct.model.network import CaptionNetwork
from sct.model.parts import Sentinel, SentinelScore, paper_gate, reference_gate


def assemble(config: CaptionerConfig) -> CaptionNetwork:
    """Make the parts that a configuration names and hand them to the network.

    ``ours`` has both sentinels, ``single_sentinel`` the visual one alone, ``no_visual_sentinel`` the chunk sentinel
    alone. In reference mode sentinels have biases and output vectors of their own, the chunk sentinel reads the new
    hidden state (the paper: the previous one), and the gate is the authors'.
    """
    is_reference = config.mode == "reference"
    inputs = config.hidden_size + config.feature_size + config.word_size

    def sentinel() -> Sentinel:
        return Sentinel(inputs, config.hidden_size, bias=is_reference)

    def score() -> SentinelScore:
        return SentinelScore(config.hidden_size, config.attention_size, own_vector=is_reference)

    has_visual, has_chunk = config.variant != "no_visual_sentinel", config.variant != "single_sentinel"
    return CaptionNetwork(
        config,
        visual_sentinel=sentinel() if has_visual else None,
        visual_score=score() if has_visual else None,
        chunk_sentinel=sentinel() if has_chunk else None,
        chunk_score=score() if has_chunk else None,
        gate=reference_gate if is_reference else paper_gate,
        chunk_reads_new_state=is_reference,
    )
