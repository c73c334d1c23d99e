"""Bundles, sorters, checkpoints, recipes, word vectors and requests to the server."""

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import torch

from sct.captioner.bundle import save_bundle
from sct.captioner.captioner import load
from sct.captioner.fits import FitCalibration
from sct.captioner.import_reference import import_reference
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import read_vocabulary
from sct.language.word_vectors import WordVectors, load_vectors
from sct.regions.records import Box, Control, Region, RegionSet
from sct.reproduction.records import load_recorded_runs
from sct.sorting.baselines import ClassOrder, SvmRank
from sct.sorting.pointer_network import PointerConfig, PointerNetwork, PointerSorter
from sct.sorting.serialization import load_sorter, read_reference_sorter, save_sorter
from sct.sorting.sinkhorn import SinkhornConfig, SinkhornNetwork, SinkhornSorter
from sct.sorting.sorter import ControlSorter
from sct.training.checkpoint import TrainState, load_checkpoint
from sct.training.config import Recipe
from sct.training.metric_logger import METRICS_FILE, read_metrics
from sct.training.run import load_recipe
from sct.training.run_dir import CHECKPOINT, RECIPE, RunDir
from sct.vision.encoder import load_vision
from sct.vision.hub import HUB_FORMAT
from sct.vision.layout import LayoutEncoder
from tests.factories import (
    FEATURE_SIZE,
    LAYOUT_CLASSES,
    make_bundle,
    make_captioner_parts,
    make_recipe,
    make_vision_encoder,
)
from tests.fuzz import binary_mutations as binary
from tests.fuzz.mutations import mutate_safetensors
from tests.fuzz.targets import Target, read_folder
from tests.models.test_import_reference import checkpoint as reference_checkpoint
from tests.sorting.test_import_reference import reference_weights as reference_sorter_weights

VECTORS = WordVectors("GloVe", {"dog": 0, "man": 1, "ball": 2}, np.arange(15, dtype=np.float32).reshape(3, 5))
SIZE = (84, 60)


def model_targets(folder: Path) -> Iterator[Target]:
    """All targets; ``folder`` is for temporary files."""
    yield from _bundles(folder)
    yield from _sorters(folder)
    yield from _reference_checkpoints(folder)
    yield from _recipes()
    yield _run_dir(folder)
    yield _recorded_runs()
    yield from _word_vectors()
    yield from _requests()


def _bundles(folder: Path) -> Iterator[Target]:
    vision, order = make_vision_encoder(), ClassOrder({"dog": 0.0, "man": 1.0})
    parts = make_captioner_parts(vision=vision, sorter=ControlSorter(order, VECTORS), feature_size=vision.feature_size)
    nouns = NounTable.from_vectors(["man", "dog"], np.eye(2), "two numbers")
    fits = FitCalibration(intercept=1.0, named=0.5, similar=0.5)
    save_bundle(folder / "bundle", **parts, nouns=nouns, length_penalty=0.5, fits=fits)
    yield Target("bundle", read_folder(folder / "bundle"), _caption_image, num_examples=2)
    encoder = LayoutEncoder(LAYOUT_CLASSES, FEATURE_SIZE)
    bundle = make_bundle(folder / "layout", vision=None, sorter=None, encoder=encoder, precision="int8")
    yield Target("bundle without vision", read_folder(bundle), _caption_regions)
    vision.save(folder / "vision.safetensors")
    yield Target(
        "vision encoder",
        {"vision.safetensors": (folder / "vision.safetensors").read_bytes()},
        lambda path: load_vision(path / "vision.safetensors"),
    )
    HUB_FORMAT.save_tensors(folder / "hub.safetensors", {}, {"config": json.dumps({"backbone": "nobody/nothing"})})
    yield Target(
        "hub vision encoder",
        {"hub.safetensors": (folder / "hub.safetensors").read_bytes()},
        lambda path: load_vision(path / "hub.safetensors"),
        num_examples=0.3,
    )


def _caption_image(path: Path) -> None:
    captioner = load(path)
    pixels = np.random.default_rng(1).integers(0, 255, (SIZE[1], SIZE[0], 3), np.uint8)
    captioner.caption(pixels, regions=[(1, 2, 30, 40), (20, 10, 80, 50)], ordered=False)


def _caption_regions(path: Path) -> None:
    captioner = load(path)
    rng = np.random.default_rng(1)
    regions = tuple(
        Region(Box(10.0 * index, 5, 10.0 * index + 9, 40), "dog", 0.5, rng.normal(size=FEATURE_SIZE).astype(np.float32))
        for index in range(2)
    )
    captioner.caption_regions(Control((RegionSet(regions),)))


def _sorters(folder: Path) -> Iterator[Target]:
    torch.manual_seed(0)
    sizes = {"word_size": 5, "visual_size": 3}
    pointer = PointerConfig(**sizes, hidden_size=8, num_heads=2, num_layers=1)
    sorters = {
        "sinkhorn": SinkhornSorter(SinkhornNetwork(SinkhornConfig(**sizes, max_sets=6, temperature=0.25)).eval()),
        "pointer": PointerSorter(PointerNetwork(pointer).eval(), beam_size=3),
        "svm": SvmRank(torch.randn(12), visual=True),
        "class": ClassOrder({"dog": 0.25, "hot dog": 1.0}),
    }
    for name, sorter in sorters.items():
        save_sorter(folder / name, ControlSorter(sorter, VECTORS), provenance={"epoch": 3})
        yield Target(f"sorter, {name}", read_folder(folder / name), _sort)


def _sort(path: Path) -> None:
    sorter = load_sorter(path)
    rng = np.random.default_rng(1)
    regions = [
        Region(Box(10.0 * index, 5, 10.0 * index + 9, 40), name, 0.5, rng.normal(size=3).astype(np.float32))
        for index, name in enumerate(("dog", "man", "unicorn"))
    ]
    sorter.orders([Control(tuple(RegionSet((region,)) for region in regions), ordered=False)], [SIZE])


def _reference_checkpoints(folder: Path) -> Iterator[Target]:
    vocabulary = {"vocabulary.txt": b"a\ndog\nman\n"}
    yield Target(
        "authors' captioner",
        {"model.pth": _torch_save(reference_checkpoint()), **vocabulary},
        lambda path: import_reference(path / "model.pth", path / "vocabulary.txt", path / "bundle"),
        {".pth": binary.mutate_checkpoint},
    )
    yield Target(
        "authors' sorter",
        {"sorter.pth": _torch_save({"state_dict": reference_sorter_weights(), "opt": argparse.Namespace(lr=1)})},
        lambda path: read_reference_sorter(path / "sorter.pth"),
        {".pth": binary.mutate_checkpoint},
    )
    content = {"words": ["<unk>", "<pad>", "<bos>", "<eos>", "a", "dog"], "counts": [0, 0, 0, 0, 7, 5]}
    yield Target(
        "vocabulary",
        {"vocabulary.json": json.dumps(content).encode()},
        lambda path: read_vocabulary(path / "vocabulary.json").with_min_count(2),
    )


def _torch_save(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def _recipes() -> Iterator[Target]:
    root = Path(__file__).parents[2] / "recipes"
    for name in ("default/cross_entropy.toml", "sorter/flickr8k_pointer.toml", "vision/flickr8k.toml"):
        yield Target(
            f"recipe {name}",
            {"recipe.toml": (root / name).read_bytes()},
            lambda path: _use_recipe(load_recipe(path / "recipe.toml", ["data=x", "out=y"])),
        )


def _use_recipe(recipe: Recipe) -> None:
    recipe.fingerprint()
    recipe.to_toml()


def _run_dir(folder: Path) -> Target:
    recipe = make_recipe(Path("data"), Path("out"))
    bundle = "step-00000003"
    state = TrainState(step=3, epoch=1, best_score=0.5, metrics_bytes=60, best_bundle=bundle, last_bundle=bundle)
    with RunDir.create(folder / "run", recipe) as run_dir:
        run_dir.write_bundle(3, lambda path: path.mkdir(parents=True))
        run_dir.save_checkpoint({"model.weight": torch.arange(6.0).reshape(2, 3)}, state)
    lines = [{"step": step, "loss": 0.5 / (step + 1)} for step in range(4)]
    (folder / "run" / METRICS_FILE).write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    files = {name: (folder / "run" / name).read_bytes() for name in (RECIPE, CHECKPOINT, METRICS_FILE)}
    return Target("run directory", files, _resume_run, {CHECKPOINT: _mutate_run_checkpoint})


def _resume_run(path: Path) -> None:
    recipe = make_recipe(Path("data"), Path("out"))
    list(read_metrics(path))
    RunDir.status(path)
    with RunDir.resume(path, recipe) as run_dir:
        if run_dir.checkpoint is not None:
            load_checkpoint(path / CHECKPOINT)
        run_dir.metric_logger(tensorboard=False).close()


def _recorded_runs() -> Target:
    run = {
        "recipe": {"seed": 2, "model.hidden_size": 64},
        "report": {"steps": 3, "dataset": "a", "max_seconds": 0.5},
        "evaluations": {"sequence-val": {"provenance": {"data": "a"}, "scores": {"scores": {"C": 99.5}}}},
    }
    run["evaluations"]["sequence-val"]["captions"] = {"samples": 0, "said": ["a dog", ["a cat", "a dog"]]}
    content = {"recipe": {"data": "build/x", "optimizer.learning_rate": 0.1}, "runs": {"cross_entropy": run}}
    content["samples"] = [[["a.jpg", ["a dog"]], ["b.jpg", ["a cat", "two cats"]]]]
    return Target(
        "recorded runs",
        {"runs.json": json.dumps(content).encode()},
        lambda path: load_recorded_runs(path / "runs.json"),
    )


def _mutate_run_checkpoint(random: Random, content: bytes) -> bytes:
    """Damage the counters or a tensor of a checkpoint, with the right checksum."""
    from sct.training.checkpoint import _checksum

    damaged = mutate_safetensors(random, content)
    try:
        size = int.from_bytes(damaged[:8], "little")
        header = json.loads(damaged[8 : 8 + size])
        tensors = _load_tensors(damaged)
        header["__metadata__"]["checksum"] = _checksum(tensors, header["__metadata__"]["state"])
    except Exception:  # too damaged for a checksum
        return damaged
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + damaged[8 + size :]


def _load_tensors(content: bytes) -> dict[str, torch.Tensor]:
    import safetensors.torch

    return safetensors.torch.load(content)


def _word_vectors() -> Iterator[Target]:
    rows = ["dog 0.5 1 -2e-1", "man 1 2 3", "a 0.1 0.2 0.3"]
    header = f"{len(rows)} 3"
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    word2vec = b"2 3\n" + b"".join(
        word + b" " + row.tobytes() + b"\n" for word, row in zip((b"dog", b"man"), values, strict=True)
    )
    files = {
        "glove.txt": "\n".join(rows).encode() + b"\n",
        "word2vec.txt": "\n".join([header, *rows]).encode() + b"\n",
        "word2vec.bin": word2vec,
    }
    for name, content in files.items():
        yield Target(name, {name: content}, lambda path, name=name: _use_vectors(path / name))


def _use_vectors(path: Path) -> None:
    vectors = load_vectors(path)
    NounTable.from_nouns(["dog", "man", "unicorn"], vectors)
    vectors.similarity("dog", "man")


def _requests() -> Iterator[Target]:
    from sct.serving import schemas
    from sct.serving.middleware import APIError
    from sct.serving.multipart import Body, decode_image, parse_form

    errors = (InputError, APIError)
    control = [[[20.0, 30.0, 200.0, 310.0]], [[180.0, 90.0, 330.0, 250.0], [10.0, 5.0, 40.0, 60.0]]]
    examples = {
        "caption": {"control": control, "classes": [["dog"], [None, "man"]], "n_best": 2, "length_penalty": 0.5},
        "alternatives": {"control": control, "limit": 3, "ordered": False},
        "detect": {"image": "a" * 64, "limit": 30},
        "score": {"predictions": [{"prediction": "a boy", "references": ["A boy.", "a child"]}], "metrics": ["B4"]},
    }

    def parse(path: Path, name: str) -> None:
        params = schemas.parse_params(schemas.REQUESTS[f"/v1/{name}"], (path / f"{name}.json").read_bytes())
        if isinstance(params, schemas.CaptionParams | schemas.AlternativesParams):
            control = params.to_control()
            params.to_options(2)
            if control is not None:
                control.clip(640, 480)

    for name, example in examples.items():
        yield Target(
            f"POST /v1/{name}",
            {f"{name}.json": json.dumps(example).encode()},
            lambda path, name=name: parse(path, name),
            errors=errors,
        )
    part = '--xyz\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n'
    form = part.format("image", '; filename="a.png"').encode() + b"12345" + b"\r\n"
    form += part.format("request", "").encode() + b'{"n_best": 2}' + b"\r\n--xyz--\r\n"
    yield Target(
        "multipart form",
        {"form": form},
        lambda path: parse_form(
            Body("multipart/form-data", "multipart/form-data; boundary=xyz", (path / "form").read_bytes())
        ),
        errors=errors,
    )
    buffer = io.BytesIO()
    from PIL import Image

    Image.new("RGB", (20, 10), (200, 10, 10)).save(buffer, "PNG")
    yield Target(
        "uploaded image",
        {"image.png": buffer.getvalue()},
        lambda path: decode_image((path / "image.png").read_bytes(), "upload", 40.0),
        {".png": binary.mutate_png},
        errors=errors,
    )
