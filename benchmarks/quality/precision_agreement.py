"""Agreement of captions in half precision, or with int8 weights, with float32, for a trained captioner.

    python benchmarks/quality/precision_agreement.py export DATASET data.npz    # a prepared COCO-layout dataset
    python benchmarks/quality/precision_agreement.py train data.npz weights.safetensors --seconds 200    # on a GPU
    python benchmarks/quality/precision_agreement.py compare data.npz weights.safetensors [--dtype float16 | --int8]

Region features are a random projection of class and box to 1,280 numbers. Training is plain cross-entropy on words and
shifts, just long enough for confident, grammatical captions.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from sct.captioner.cuda_graph import CudaGraphSearch
from sct.data.dataset import Dataset
from sct.decoding.beam import beam_search
from sct.decoding.config import SearchConfig
from sct.decoding.output import Decoded
from sct.language.shift_targets import fill_regions, shift_targets
from sct.language.vocabulary import BOS, EOS, PAD, UNK
from sct.models.config import CaptionerConfig
from sct.models.fast_decoder import FastDecoder
from sct.models.inputs import ControlBatch
from sct.models.linear import DENSE, INT8
from sct.models.show_control_tell import build_show_control_tell

WORDS, FEATURES, LENGTH, SLOTS, MEMBERS = 2600, 1280, 20, 6, 4


def export(dataset_folder: Path, out: Path, num_examples: int) -> None:
    """Write examples as arrays: tokens, slots, shifts, and class and box of each region of each set."""
    table = Dataset.open(dataset_folder).table
    tokens = np.full((num_examples, LENGTH + 1), PAD, np.uint16)
    slot = np.zeros((num_examples, LENGTH), np.uint8)
    shift = np.zeros((num_examples, LENGTH), np.uint8)
    classes = np.full((num_examples, SLOTS, MEMBERS), 255, np.uint8)
    boxes = np.zeros((num_examples, SLOTS, MEMBERS, 4), np.float16)
    is_val = np.zeros(num_examples, bool)
    filled = 0
    order = np.random.default_rng(1).permutation(len(table.image_ids))
    numbers = {word: number for number, word in enumerate(table.words[:WORDS])}
    for row in order:
        image = table.image(int(row))
        caption = image.captions[int(row) % len(image.captions)]
        chunks = caption.chunks or ()
        if filled == num_examples:
            break
        if not image.regions or not chunks or len(chunks) > SLOTS or len(caption.words) > LENGTH - 2:
            continue
        labels = [label if label is None or label < len(chunks) else None for label in caption.chunk_of_word]
        ids = [numbers.get(word, UNK) for word in caption.words]
        tokens[filled, : len(ids) + 2] = [BOS, *ids, EOS]
        slot[filled, : len(ids)] = [s or 0 for s in fill_regions(labels)]
        slot[filled, len(ids) :] = slot[filled, len(ids) - 1] if ids else 0
        shift[filled, : len(ids)] = shift_targets(labels)
        for number, chunk in enumerate(chunks):
            for place, member in enumerate((chunk.regions or range(len(image.regions)))[:MEMBERS]):
                region = image.regions[member]
                classes[filled, number, place] = table.classes.index(region.class_name or "")
                boxes[filled, number, place] = region.box
        is_val[filled] = image.split == "val"
        filled += 1
    np.savez_compressed(
        out,
        tokens=tokens[:filled],
        slot=slot[:filled],
        shift=shift[:filled],
        classes=classes[:filled],
        boxes=boxes[:filled],
        is_val=is_val[:filled],
        words=np.array(table.words[:WORDS]),
    )
    print(f"{filled} examples, {is_val.sum()} of validation, {out.stat().st_size / 1e6:.1f} MB")


class Examples:
    """Exported arrays on a device, and control batches made from them."""

    def __init__(self, path: Path, device: torch.device) -> None:
        """Load the arrays and draw the random projections of class and box."""
        arrays = np.load(path)
        self.words = arrays["words"].tolist()
        self.is_val = torch.from_numpy(arrays["is_val"]).to(device)
        self.tokens = torch.from_numpy(arrays["tokens"].astype(np.int64)).to(device)
        self.slot = torch.from_numpy(arrays["slot"].astype(np.int64)).to(device)
        self.shift = torch.from_numpy(arrays["shift"].astype(np.int64)).to(device)
        self.classes = torch.from_numpy(arrays["classes"].astype(np.int64)).to(device)
        self.boxes = torch.from_numpy(arrays["boxes"].astype(np.float32)).to(device)
        generator = torch.Generator().manual_seed(1)
        self.class_embedding = torch.randn(256, FEATURES, generator=generator).to(device)
        self.box_projection = 2 * torch.randn(4, FEATURES, generator=generator).to(device)

    def inputs(self, chosen: torch.Tensor) -> ControlBatch:
        """Collate the controls of some examples."""
        classes, boxes = self.classes[chosen], self.boxes[chosen]
        mask = classes != 255
        features = (self.class_embedding[classes] + boxes @ self.box_projection) * mask[..., None]
        rows = torch.arange(mask.numel(), device=mask.device).view(mask.shape)
        image = features.sum((1, 2)) / mask.sum((1, 2)).clamp(min=1)[:, None]
        return ControlBatch(features.flatten(0, 2), image, rows, mask, mask.any(2).sum(1).clamp(min=1))


def train(data: Path, out: Path, seconds: float, batch: int, device: torch.device) -> None:
    """Train with cross-entropy on words and shifts for a fixed time."""
    examples = Examples(data, device)
    torch.manual_seed(1)
    captioner = build_show_control_tell(CaptionerConfig(vocabulary_size=WORDS, feature_size=FEATURES)).to(device)
    optimizer = torch.optim.Adam(captioner.parameters(), lr=5e-4, fused=device.type == "cuda")
    training = (~examples.is_val).nonzero().flatten()
    start, step = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < seconds:
        for group in optimizer.param_groups:
            group["lr"] = 5e-4 * (1 - 0.9 * elapsed / seconds)
        chosen = training[torch.randint(len(training), (batch,), device=device)]
        tokens, targets = examples.tokens[chosen, :-1], examples.tokens[chosen, 1:]
        token_mask = targets != PAD
        forced = captioner.teacher_forced_log_probs(examples.inputs(chosen), tokens, examples.slot[chosen])
        words = functional.nll_loss(forced.word_log_probs[token_mask], targets[token_mask])
        word_mask = token_mask & (targets != EOS)
        shifts = functional.nll_loss(forced.shift_log_probs[word_mask], examples.shift[chosen][word_mask])
        optimizer.zero_grad(set_to_none=True)
        (words + 4 * shifts).backward()
        torch.nn.utils.clip_grad_norm_(captioner.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 1:
            print(f"{elapsed:6.0f} s, step {step}, words {words.item():.3f}, shifts {shifts.item():.4f}", flush=True)
    save_file({name: weight.half().cpu() for name, weight in captioner.state_dict().items()}, out)


def compare(data: Path, weights: Path, options: argparse.Namespace, device: torch.device) -> None:
    """Compare beam-5 captions of validation controls in float32 and in the other precision."""
    examples = Examples(data, device)
    captioner = build_show_control_tell(CaptionerConfig(vocabulary_size=WORDS, feature_size=FEATURES))
    captioner.load_state_dict({name: weight.float() for name, weight in load_file(weights).items()})
    captioner.to(device)
    chosen = examples.is_val.nonzero().flatten()[: options.examples]
    inputs = examples.inputs(chosen)

    def search(decoder: FastDecoder) -> Decoded:
        config = SearchConfig(early_stop=device.type != "cuda")
        if device.type == "cuda":
            return CudaGraphSearch(decoder, config)(inputs)
        return beam_search(decoder, decoder.init_state(inputs), config)

    exact = search(FastDecoder(captioner))
    other_decoder = FastDecoder(captioner, INT8 if options.int8 else DENSE, getattr(torch, options.dtype))
    other = search(other_decoder)
    mask = exact.token_mask[:, 0] | other.token_mask[:, 0]
    same = (exact.words[:, 0] == other.words[:, 0]) & mask
    whole = (same == mask).all(1).float().mean().item()
    what = "int8 weights" if options.int8 else options.dtype
    print(
        f"{what} and float32 on {device}: {same.sum() / mask.sum():.2%} of words, {whole:.2%} of whole captions agree"
    )
    if options.single:
        for name, decoder in (("float32", FastDecoder(captioner)), (what, other_decoder)):
            times = []
            for number in chosen[: options.single]:
                one = examples.inputs(number[None])
                start = time.perf_counter()
                beam_search(decoder, decoder.init_state(one), SearchConfig())
                times.append(1000 * (time.perf_counter() - start))
            print(f"one caption at a time, {name}: {np.median(times[3:]):.1f} ms (beam 5, until all hypotheses end)")
    for ids in exact.words[:8, 0].tolist():
        print("   ", " ".join(examples.words[i] for i in ids if i > EOS))


def main() -> None:
    """Do one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["export", "train", "compare"])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--single", type=int, default=0, help="number of captions to time, one at a time")
    parser.add_argument("--int8", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if options.what == "export":
        export(options.first, options.second, options.examples)
    elif options.what == "train":
        train(options.first, options.second, options.seconds, options.batch, device)
    else:
        compare(options.first, options.second, options, device)


if __name__ == "__main__":
    main()
