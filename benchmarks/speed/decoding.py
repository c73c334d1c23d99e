"""Captions per second of greedy and beam-5 decoding, batch sizes 1 to 1,000, compared with the hardware limit.

    python benchmarks/speed/decoding.py [--device cuda] [--dtype float16] [--int8] [--batches 1 32 100 1000] [--json]
    python benchmarks/speed/decoding.py --variants show_control_tell transformer    # side by side, in one run

Sizes: the paper's layers (1000 / 1000 / 512), or the default ones of the transformer, with 10,000 words and 2,048 features, and with 2,600 words and 1,280
features, for which the authors' code was measured on one H200 (beam 5, 20 steps: 102 ms for a batch of 100, 980
captions/s; one image at a time 16 to 56 captions/s; greedy, batch 100: 59 ms). All 20 steps are taken, and only the
search is timed; grounding takes one more pass over the words found. The limit is the larger of two times: operations of
the matrix products at the measured rate of a large one, and bytes of weights read per step at the measured rate of a
copy.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import product

import torch

from sct.captioner.cuda_graph import CudaGraphSearch, Search
from sct.decoding.beam import beam_search
from sct.decoding.config import SearchConfig
from sct.decoding.sampling import greedy
from sct.models.config import CaptionerConfig
from sct.models.inputs import ControlBatch
from sct.models.interface import Decoder
from sct.models.linear import DENSE, INT8
from sct.models.registry import build_model, model_spec
from sct.models.transformer.config import TransformerConfig

SIZES = {"V 2,600 / features 1,280": (2600, 1280), "V 10,000 / features 2,048": (10_000, 2048)}
STEPS, DETECTIONS, SLOTS, MEMBERS = 20, 10, 4, 4


def random_inputs(examples: int, features: int, device: torch.device) -> ControlBatch:
    """Controls with ten detections per image and four sets of up to four of them."""
    rows = torch.randint(DETECTIONS, (examples, SLOTS, MEMBERS)) + DETECTIONS * torch.arange(examples)[:, None, None]
    mask = torch.arange(MEMBERS) < torch.randint(1, MEMBERS + 1, (examples, SLOTS, 1))
    inputs = ControlBatch(
        torch.randn(examples * DETECTIONS, features),
        torch.randn(examples, features),
        rows,
        mask,
        torch.full((examples,), SLOTS),
    )
    return inputs.to(device)


def seconds(
    run: Callable[[], object], device: torch.device, min_seconds: float = 0.5, max_seconds: float = 10.0
) -> float:
    """Median time of a run after one warm-up run; at least two runs, fewer if they are long."""
    times: list[float] = []
    while len(times) < 3 or (sum(times) < max_seconds and (len(times) < 6 or sum(times) < min_seconds)):
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def measure_limits(device: torch.device, dtype: torch.dtype) -> tuple[float, float]:
    """Operations per second of a large matrix product, and bytes per second of a large copy.

    On a CPU the block is as large as the weights, which may stay in the cache between steps.
    """
    size = 8192 if device.type == "cuda" else 1536
    a = torch.randn(size, size, device=device, dtype=dtype)
    rate = 2 * size**3 / seconds(lambda: a @ a, device)
    block = torch.randn((1 << 28) if device.type == "cuda" else (1 << 24), device=device)
    target = torch.empty_like(block)
    copied = block.numel() * 4 * (2 if device.type == "cuda" else 1)
    return rate, copied / seconds(lambda: target.copy_(block), device)


def _search_uncaptured(search: Search, captioner: Decoder, inputs: ControlBatch, config: SearchConfig) -> object:
    return search(captioner, captioner.init_state(inputs), config)


def weights_per_step(config: CaptionerConfig) -> tuple[int, int]:
    """Number of weights read per step: attention LSTM or attention layers, and everything else."""
    h, f, a = config.hidden_size, config.feature_size, config.attention_size
    if isinstance(config, TransformerConfig):
        attention = config.decoder_depth * 6 * h * a + config.gate_size * (h + config.vocabulary_size)
        return attention, config.decoder_depth * 2 * h * config.feedforward_size + h * config.vocabulary_size
    bottom = 2 * h * 6 * h + h * (a + f) + h * a
    return bottom, h * (a + 4 * h) + (f + h) * 4 * h + h * config.vocabulary_size


def measure(options: argparse.Namespace) -> list[dict[str, object]]:
    """Measure all sizes, batch sizes and beams."""
    device, dtype = torch.device(options.device), getattr(torch, options.dtype)
    rate, bandwidth = measure_limits(device, dtype)
    rows: list[dict[str, object]] = []
    for label, variant in product(options.sizes or SIZES, options.variants):
        vocabulary, features = SIZES[label]
        config = model_spec(variant).config(vocabulary_size=vocabulary, feature_size=features, variant=variant)
        torch.manual_seed(1)
        captioner = build_model(config).to(device).eval().for_inference(INT8 if options.int8 else DENSE, dtype)
        bottom, top = weights_per_step(config)
        for batch in options.batches:
            inputs = random_inputs(batch, features, device)
            for beam in (1, 5):
                search_config = SearchConfig(beam_size=beam, early_stop=False, max_length=STEPS)
                search = beam_search if beam > 1 else greedy
                if device.type == "cuda":
                    elapsed = seconds(partial(CudaGraphSearch(captioner, search_config, search), inputs), device)
                else:
                    elapsed = seconds(partial(_search_uncaptured, search, captioner, inputs, search_config), device)
                item = torch.finfo(dtype).bits // 8
                read = bottom + 2 * top if options.int8 else item * (bottom + top)
                floor = STEPS * max(2 * (bottom + top) * batch * beam / rate, read / bandwidth)
                rows.append(
                    {
                        "variant": variant,
                        "size": label,
                        "search": "greedy" if beam == 1 else f"beam {beam}",
                        "batch": batch,
                        "ms": 1000 * elapsed,
                        "captions_per_second": batch / elapsed,
                        "share_of_limit": floor / elapsed,
                    }
                )
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float16" if torch.cuda.is_available() else "float32")
    parser.add_argument("--int8", action="store_true", help="int8 weights, on a CPU")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 100, 1000])
    parser.add_argument("--variants", nargs="+", default=["show_control_tell"], help="show_control_tell, transformer")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), help="default: both")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options)
    machine = torch.cuda.get_device_name() if options.device == "cuda" else f"{torch.get_num_threads()} cores"
    if options.json:
        print(json.dumps(rows))
        return
    precision = "int8 weights" if options.int8 else options.dtype
    print(f"{machine}, {platform.machine()}, torch {torch.__version__}, {precision}, {datetime.now(UTC):%Y-%m-%d}")
    print(f"{'variant':<19}{'size':<28}{'search':<9}{'batch':>6}{'ms':>10}{'captions/s':>12}{'of limit':>10}")
    for row in rows:
        print(
            f"{row['variant']:<19}{row['size']:<28}{row['search']:<9}{row['batch']:>6}{row['ms']:>10.2f}"
            f"{row['captions_per_second']:>12,.0f}{row['share_of_limit']:>10.0%}"
        )


if __name__ == "__main__":
    main()
