"""Bundles: folders with everything that captioning needs, without the dataset.

``config.toml`` has the format and version, the config of the model, decoding defaults, provenance and the checksum of
every file. Layout encoder, noun table, sorter, vision encoder and the calibration of fits are optional files. Files
that are not listed, such as a model card, are ignored.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import safetensors.torch
import torch
from torch import Tensor

from sct._version import __version__
from sct.captioner.fits import FitCalibration
from sct.captioner.hub import find_hub_bundle, is_hub_name
from sct.decoding.config import check_length_penalty
from sct.errors import InputError, format_value
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.models.config import CaptionerConfig, Variant
from sct.models.interface import CaptionModel
from sct.models.registry import build_from_state_dict, model_spec, state_dict_shapes
from sct.sorting.serialization import CONFIG as SORTER
from sct.sorting.serialization import WEIGHTS as SORTER_WEIGHTS
from sct.sorting.serialization import load_sorter, save_sorter
from sct.sorting.sorter import ControlSorter
from sct.storage.artifacts import ArtifactFormat, sha256_file
from sct.storage.atomic import atomic_write, fsync_dir
from sct.storage.int8 import dequantize_int8, quantize_int8
from sct.storage.reading import read_toml
from sct.storage.state_dict import check_state_dict
from sct.storage.toml import TomlValue, check_toml_values, dump_toml
from sct.vision.encoder import load_vision
from sct.vision.interface import VisionEncoder
from sct.vision.layout import LayoutEncoder

FORMAT = ArtifactFormat("sct bundle", "copy the bundle again, or make it again")
CONFIG, VOCABULARY, WEIGHTS = "config.toml", "vocabulary.json", "weights.safetensors"
ENCODER, NOUNS, VISION = "encoder.safetensors", "nouns.safetensors", "vision.safetensors"
FITS = "fits.toml"
DEFAULT_FOLDER = Path(__file__).parents[1] / "bundles" / "default"
Precision = Literal["float32", "float16", "bfloat16", "int8"]
"""Of the weights on disk, int8 with a scale per row; they are always loaded as float32."""
_SORTER_FILES = (SORTER, SORTER_WEIGHTS)
_TABLES = ("captioner", "provenance", "files")
_DECODING = "decoding"
"""Optional table with decoding defaults."""


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """Content of a bundle, loaded."""

    folder: Path
    model: CaptionModel
    vocabulary: Vocabulary
    provenance: Mapping[str, TomlValue]
    """Where the weights come from; for people only."""
    encoder: LayoutEncoder | None = None
    """Computes features of regions from class and box."""
    nouns: NounTable | None = None
    """Nouns and their word vectors, for noun chunks and the NW reward and metric."""
    sorter: ControlSorter | None = None
    """Orders the region sets of unordered controls."""
    vision: VisionEncoder | None = None
    """Computes region features of images; without it, regions must come with features."""
    length_penalty: float = 0.0
    """Default of ``CaptionOptions.length_penalty``; 0 is the paper's search."""
    fits: FitCalibration | None = None
    """Calibration of ``GroundedChunk.fits``."""


def save_bundle(
    folder: Path,
    model: CaptionModel,
    vocabulary: Vocabulary,
    *,
    provenance: Mapping[str, TomlValue] | None = None,
    precision: Precision = "float32",
    encoder: LayoutEncoder | None = None,
    nouns: NounTable | None = None,
    sorter: ControlSorter | None = None,
    vision: VisionEncoder | None = None,
    length_penalty: float = 0.0,
    fits: FitCalibration | None = None,
) -> None:
    """Write a bundle into a new folder, atomically."""
    check_new_folder(folder)
    _check_vocabulary(vocabulary, model.config, "the vocabulary")
    _check_length_penalty(length_penalty, model.config, "the bundle")
    weights = _to_precision(model.state_dict(), precision)
    # After the conversion: 70,000 is finite in float32 and infinite in float16.
    source = f"the model in {precision}"
    check_state_dict(_to_float32(weights, source), state_dict_shapes(model.config), source)
    with atomic_folder(folder) as part:
        vocabulary.save(part / VOCABULARY)
        with atomic_write(part / WEIGHTS) as file:
            file.write(safetensors.torch.save(weights))
        if encoder is not None:
            encoder.save(part / ENCODER)
        if nouns is not None:
            nouns.save(part / NOUNS)
        if sorter is not None:
            save_sorter(part, sorter)
        if vision is not None:
            vision.save(part / VISION)
        if fits is not None:
            fits.save(part / FITS)
        decoding = {"length_penalty": length_penalty} if length_penalty else None
        _write_config(part, asdict(model.config), {"sct": __version__, **(provenance or {})}, decoding)


def add_sorter(
    bundle: Path, sorter: ControlSorter, folder: Path, *, provenance: Mapping[str, TomlValue] | None = None
) -> None:
    """Write a copy of a bundle with this sorter; the other files are copied byte for byte.

    ``provenance`` is that of the sorter.
    """
    bundle = bundle_folder(bundle)
    config = read_bundle_config(bundle)
    check_new_folder(folder)
    with atomic_folder(folder) as part:
        for name, sha256 in config["files"].items():
            FORMAT.check_file(bundle / name, sha256)
            if name not in _SORTER_FILES:
                shutil.copyfile(bundle / name, part / name)
        save_sorter(part, sorter, provenance=provenance)
        _write_config(part, config["captioner"], config["provenance"], config.get(_DECODING))


def load_bundle(
    folder: Path,
    device: torch.device | str = "cpu",
    *,
    revision: str | None = None,
    allow_download: bool = False,
) -> Bundle:
    """Load and check a bundle: a folder, "default", which ships with the package, or "user/name" on the Hub.

    ``allow_download``: the bundle, and models that its vision encoder names, may be downloaded from the Hugging Face
    Hub. ``revision`` is a branch, tag or commit there.
    """
    folder = bundle_folder(folder, revision=revision, allow_download=allow_download)
    content = read_bundle_config(folder)
    files = content["files"]
    config = _parse_model_config(content["captioner"], folder / CONFIG)
    length_penalty = _parse_length_penalty(content, config, folder / CONFIG)
    for name, sha256 in files.items():
        FORMAT.check_file(folder / name, sha256)
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    _check_vocabulary(vocabulary, config, folder / VOCABULARY)
    weights = _to_float32(FORMAT.load_tensors(folder / WEIGHTS, "pt", check_header=False).tensors, folder / WEIGHTS)
    check_state_dict(weights, state_dict_shapes(config), folder / WEIGHTS)
    return Bundle(
        folder,
        build_from_state_dict(config, weights).to(device),
        vocabulary,
        content["provenance"],
        LayoutEncoder.load(folder / ENCODER) if ENCODER in files else None,
        NounTable.load(folder / NOUNS) if NOUNS in files else None,
        load_sorter(folder) if SORTER in files else None,
        load_vision(folder / VISION, allow_download=allow_download) if VISION in files else None,
        length_penalty,
        FitCalibration.load(folder / FITS) if FITS in files else None,
    )


def check_new_folder(folder: Path) -> None:
    """Raise if a folder that is to be written exists."""
    if folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} exists: name a new folder, or remove it")


def _to_precision(weights: Mapping[str, Tensor], precision: Precision) -> dict[str, Tensor]:
    if precision == "int8":
        return quantize_int8(weights)
    dtype = getattr(torch, precision)
    return {name: weight.detach().to("cpu", dtype).contiguous() for name, weight in weights.items()}


def _to_float32(weights: dict[str, Tensor], source: object) -> dict[str, Tensor]:
    """Dequantise weights, and copy them out of the file's memory.

    There they are not aligned, so that some CPUs sum in another order: results would depend on how a model was loaded.
    """
    if any(weight.dtype == torch.int8 for weight in weights.values()):
        return dequantize_int8(weights, source)
    return {name: weight.clone() for name, weight in weights.items()}


def bundle_folder(folder: Path, *, revision: str | None = None, allow_download: bool = False) -> Path:
    """Path of a bundle; "default" is the one that ships, "user/name" one of the Hugging Face Hub (``hub``)."""
    if is_hub_name(folder):
        return find_hub_bundle(folder.as_posix(), revision=revision, allow_download=allow_download)
    if str(folder) != "default":
        return folder
    if not DEFAULT_FOLDER.is_dir():
        raise InputError(
            "the default bundle is missing from this installation: install sct again, or name the folder of a bundle, "
            "such as sct import-reference writes"
        )
    return DEFAULT_FOLDER


def vision_file(path: Path) -> Path:
    """Vision encoder file: that of a bundle's folder, "default" included; else the path."""
    folder = bundle_folder(path)
    return folder / VISION if folder.is_dir() else path


def bundle_sha256(folder: Path) -> str:
    """Checksum of a bundle: of its config, which holds those of the other files."""
    return sha256_file(bundle_folder(folder) / CONFIG)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to ``folder`` at the end."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a killed process
    part.mkdir()
    try:
        yield part
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    fsync_dir(folder.parent)


def _write_config(
    folder: Path,
    captioner: Mapping[str, TomlValue],
    provenance: Mapping[str, TomlValue],
    decoding: Mapping[str, TomlValue] | None,
) -> None:
    """Write ``config.toml`` with the checksums of all other files."""
    text = dump_toml(
        {
            **FORMAT.header(),
            "captioner": captioner,
            **({_DECODING: decoding} if decoding else {}),
            "provenance": provenance,
            # Last, so that it is missing from a truncated file.
            "files": {path.name: sha256_file(path) for path in sorted(folder.iterdir())},
        }
    )
    with atomic_write(folder / CONFIG) as file:
        file.write(text.encode("utf-8"))


def read_bundle_config(folder: Path) -> dict[str, Any]:
    """Read ``config.toml`` and check its format, version and keys."""
    path = folder / CONFIG
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {problem}: expected the folder of a bundle, as sct train writes, or default")
    if not path.exists():
        raise InputError(f"{folder} has no {CONFIG}: expected the folder of a bundle")
    content = read_toml(path, "the config of a bundle")
    FORMAT.check_header(content, path)
    _check_keys(content, ("format", "version", *_TABLES), path, optional=(_DECODING,))
    for name in (*_TABLES, _DECODING):
        if name in content and not isinstance(content[name], dict):
            raise FORMAT.damaged(path, f"{name} is {format_value(content[name])}, expected a table")
    check_toml_values(content["provenance"], path)
    _check_keys(content["files"], (VOCABULARY, WEIGHTS), path, optional=(ENCODER, NOUNS, VISION, FITS, *_SORTER_FILES))
    if (SORTER in content["files"]) != (SORTER_WEIGHTS in content["files"]):
        raise FORMAT.damaged(path, f"got one of {SORTER} and {SORTER_WEIGHTS}, expected both or neither")
    return content


def _parse_model_config(table: Mapping[str, Any], path: Path) -> CaptionerConfig:
    """Config of the model; every key is required, as defaults may change between releases."""
    variant = table.get("variant")
    if variant is not None and variant not in get_args(Variant):
        raise FORMAT.damaged(path, f"variant is {format_value(variant)}, expected {', '.join(get_args(Variant))}")
    # Without a variant, the key check below reports it.
    config_class = CaptionerConfig if variant is None else model_spec(str(variant)).config
    _check_keys(table, tuple(field.name for field in fields(config_class)), path)
    for field in fields(config_class):
        value, choices = table[field.name], get_args(field.type)
        # type(), as True is an int for isinstance().
        if value not in choices if choices else type(value) is not field.type:
            expected = ", ".join(choices) or getattr(field.type, "__name__", "another type")
            raise FORMAT.damaged(path, f"{field.name} is {format_value(value)}, expected {expected}")
    try:
        return config_class(**table)
    except InputError as error:
        raise FORMAT.damaged(path, error) from error


def _parse_length_penalty(content: Mapping[str, Any], config: CaptionerConfig, path: Path) -> float:
    if _DECODING not in content:
        return 0.0
    _check_keys(content[_DECODING], ("length_penalty",), path)
    value = content[_DECODING]["length_penalty"]
    if type(value) not in (int, float):  # True is an int for isinstance()
        raise FORMAT.damaged(path, f"length_penalty is {format_value(value)}, expected a number")
    _check_length_penalty(value, config, path)
    return float(value)


def _check_length_penalty(value: float, config: CaptionerConfig, source: object) -> None:
    try:
        check_length_penalty(value)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    if value and config.mode == "reference":
        raise InputError(
            f"{source}: length_penalty is {value}, expected 0 in reference mode: the authors' search has none"
        )


def _check_vocabulary(vocabulary: Vocabulary, config: CaptionerConfig, source: object) -> None:
    if len(vocabulary) != config.vocabulary_size:
        raise InputError(
            f"{source} has {len(vocabulary):,} words, the model expects {config.vocabulary_size:,}: use the vocabulary "
            "it was trained with"
        )


def _check_keys(
    found: Mapping[str, object], expected: tuple[str, ...], path: Path, optional: tuple[str, ...] = ()
) -> None:
    for name in expected:
        if name not in found:
            raise FORMAT.damaged(path, f"{name!r} is missing")
    for name in found:
        if name not in (*expected, *optional):
            raise FORMAT.damaged(
                path, f"got unknown key {format_value(name)}, expected {', '.join((*expected, *optional))}"
            )
