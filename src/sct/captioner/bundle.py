"""A bundle: a folder that captions with no dataset at hand.

``config.toml`` names its format, its version, the settings of the captioner, how its captions are ranked where that is
not as in the paper, and the checksum of every file that belongs to it. Further parts (a region encoder, a noun table, a
sorter, what sees images) are further files; what the checksums do not list, such as a model card, may lie beside
them.
"""

import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from sct._version import __version__
from sct.decoding.config import check_length_penalty
from sct.errors import InputError
from sct.language.noun_table import NounTable
from sct.language.vocabulary import Vocabulary
from sct.models.config import CaptionerConfig, Variant
from sct.models.interface import CaptionModel
from sct.models.registry import build_from_state_dict, check_state_dict, model_spec, state_dict_shapes
from sct.sorting import ControlSorter, load_sorter, save_sorter
from sct.sorting.serialization import CONFIG as SORTER
from sct.sorting.serialization import WEIGHTS as SORTER_WEIGHTS
from sct.storage.artifacts import sha256_file
from sct.storage.atomic import atomic_write, fsync_dir
from sct.storage.int8 import dequantize_int8, quantize_int8
from sct.storage.toml import TomlValue, toml_text
from sct.vision.interface import VisionEncoder
from sct.vision.layout import LayoutEncoder

FORMAT = "show-control-and-tell bundle"
VERSION = 1
CONFIG, VOCABULARY, WEIGHTS = "config.toml", "vocabulary.json", "weights.safetensors"
ENCODER, NOUNS, VISION = "encoder.safetensors", "nouns.safetensors", "vision.safetensors"
DEFAULT_FOLDER = Path(__file__).parents[1] / "bundles" / "default"
"""The bundle that ships."""
Precision = Literal["float32", "float16", "bfloat16", "int8"]
"""Of the weights on disk, int8 with a scale for each row; they are always loaded as float32."""

_LATER = {"end_slot": False}
"""Settings of captioners that bundles of earlier releases do not name."""
_SORTER_FILES = (SORTER, SORTER_WEIGHTS)
_TABLES = ("captioner", "provenance", "files")
_DECODING = "decoding"
"""The table that may be missing: how captions are searched for where nobody says otherwise."""
_HOW_TO_MEND = "copy the bundle again, or make it anew"


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """What a bundle holds, ready to use."""

    folder: Path
    captioner: CaptionModel
    vocabulary: Vocabulary
    provenance: Mapping[str, TomlValue]
    """Where the weights come from: free words for people, no program depends on them."""
    encoder: LayoutEncoder | None = None
    """Makes features of regions, where none came with them."""
    nouns: NounTable | None = None
    """Which words are nouns, and how alike: by what alignment is rewarded and judged."""
    sorter: ControlSorter | None = None
    """Puts region sets in order, where they come without one."""
    vision: VisionEncoder | None = None
    """Sees regions in images; a bundle without it captions regions that come with features."""
    length_penalty: float = 0.0
    """Its captions are ranked by score / length ** this, as chosen on validation for it; 0 is the paper's search."""


def save_bundle(
    folder: Path,
    captioner: CaptionModel,
    vocabulary: Vocabulary,
    *,
    provenance: Mapping[str, TomlValue] | None = None,
    precision: Precision = "float32",
    encoder: LayoutEncoder | None = None,
    nouns: NounTable | None = None,
    sorter: ControlSorter | None = None,
    vision: VisionEncoder | None = None,
    length_penalty: float = 0.0,
) -> None:
    """Write a bundle into a folder that must not exist yet.

    It is written beside its place and moved there whole, so whatever has the name is complete.
    """
    _refuse_existing(folder)
    _check_vocabulary(vocabulary, captioner.config, "the vocabulary")
    _check_length_power(length_penalty, captioner.config, "what is to be saved")
    weights = _stored(captioner, precision)
    # After the change of precision: a weight of 70,000 is fine as float32 and infinite as float16.
    check_state_dict(_unpacked(weights), state_dict_shapes(captioner.config), f"a captioner in {precision}")
    with _made_whole(folder) as part:
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
        about = {"sct": __version__, **(provenance or {})}
        speaking = {"length_penalty": length_penalty} if length_penalty else None
        _write_config(part, asdict(captioner.config), about, speaking)


def add_sorter(
    bundle: Path, sorter: ControlSorter, folder: Path, *, provenance: Mapping[str, TomlValue] | None = None
) -> None:
    """Write a copy of a bundle that has this sorter, in place of its own if it has one.

    All other files stay as they are, bit for bit; ``provenance`` is the sorter's.
    """
    bundle = _found(bundle)
    content = _read_config(bundle)
    _refuse_existing(folder)
    with _made_whole(folder) as part:
        for name, checksum in content["files"].items():
            _check_file(bundle / name, checksum)
            if name not in _SORTER_FILES:
                shutil.copyfile(bundle / name, part / name)
        save_sorter(part, sorter, provenance=provenance)
        _write_config(part, content["captioner"], content["provenance"], content.get(_DECODING))


def load_bundle(folder: Path, device: torch.device | str = "cpu") -> Bundle:
    """Read what ``save_bundle`` wrote; anything else is refused before a word is said with it.

    The folder "default" is the one that ships.
    """
    folder = _found(folder)
    content = _read_config(folder)
    config = _captioner_config(content["captioner"], folder / CONFIG)
    length_penalty = _length_power(content, config, folder / CONFIG)
    for name, checksum in content["files"].items():
        _check_file(folder / name, checksum)
    vocabulary = Vocabulary.load(folder / VOCABULARY)
    _check_vocabulary(vocabulary, config, folder / VOCABULARY)
    try:
        weights = _unpacked(safetensors.torch.load_file(folder / WEIGHTS))
    except SafetensorError as error:
        raise InputError(f"{folder / WEIGHTS} is no safetensors file ({error}): {_HOW_TO_MEND}") from error
    check_state_dict(weights, state_dict_shapes(config), folder / WEIGHTS)
    return Bundle(
        folder,
        build_from_state_dict(config, weights).to(device),
        vocabulary,
        content["provenance"],
        LayoutEncoder.load(folder / ENCODER) if ENCODER in content["files"] else None,
        NounTable.load(folder / NOUNS) if NOUNS in content["files"] else None,
        load_sorter(folder) if SORTER in content["files"] else None,
        _load_vision(folder / VISION) if VISION in content["files"] else None,
        length_penalty,
    )


def _stored(captioner: CaptionModel, precision: Precision) -> dict[str, Tensor]:
    """The weights as they lie on disk."""
    weights = captioner.state_dict()
    if precision == "int8":
        return quantize_int8(weights)
    dtype = getattr(torch, precision)
    return {name: weight.detach().to("cpu", dtype).contiguous() for name, weight in weights.items()}


def _unpacked(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights by their own names, if they were packed, and in memory of their own.

    In that of a file they lie wherever the one before ends, where some processors sum up in another order: the last bit
    of what a captioner computes would depend on how it was loaded.
    """
    if any(weight.dtype == torch.int8 for weight in weights.values()):
        return dequantize_int8(weights)
    return {name: weight.clone() for name, weight in weights.items()}


def _load_vision(path: Path) -> VisionEncoder:
    from sct.vision.encoder import load_vision  # noqa: PLC0415

    return load_vision(path)


def _found(folder: Path) -> Path:
    """Where a bundle is, by its folder or by the word default."""
    if str(folder) != "default":
        return folder
    if not DEFAULT_FOLDER.is_dir():
        raise InputError(
            "this sct came without its default bundle: install it again, or name the folder of a bundle, such as "
            "sct import-reference makes"
        )
    return DEFAULT_FOLDER


def _refuse_existing(folder: Path) -> None:
    if folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} exists already: name a folder that does not, or remove it")


@contextmanager
def _made_whole(folder: Path) -> Iterator[Path]:
    """Give a folder beside its place, which is moved there once all is in it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left by a run that was killed
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
    speaking: Mapping[str, TomlValue] | None,
) -> None:
    """Write the settings; all other files are there already."""
    text = toml_text(
        {
            "format": FORMAT,
            "version": VERSION,
            "captioner": captioner,
            **({_DECODING: speaking} if speaking else {}),
            "provenance": provenance,
            # Last, so that a text that was cut short lacks it.
            "files": {path.name: sha256_file(path) for path in sorted(folder.iterdir())},
        }
    )
    with atomic_write(folder / CONFIG) as file:
        file.write(text.encode("utf-8"))


def _read_config(folder: Path) -> dict[str, Any]:
    """The settings, if they are of a bundle, of a version that is known, and whole."""
    path = folder / CONFIG
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}: expected the folder of a bundle, as sct train makes, or the word default")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder} has no {CONFIG}, so it is no bundle: name a folder that has one") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML ({error}): {_HOW_TO_MEND}") from error
    if content.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {content.get('format')!r}: expected {FORMAT!r}; name the folder of a bundle"
        )
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise InputError(f"{path} has version {version!r}: expected a whole number from 1 to {VERSION}; {_HOW_TO_MEND}")
    if version > VERSION:
        raise InputError(f"{path} has version {version}, but this sct reads up to version {VERSION}: update sct")
    _check_keys(content, ("format", "version", *_TABLES), path, optional=(_DECODING,))
    for name in (*_TABLES, _DECODING):
        if name in content and not isinstance(content[name], dict):
            raise InputError(f"{path}: {name} is {content[name]!r}: expected a table; {_HOW_TO_MEND}")
    _check_keys(content["files"], (VOCABULARY, WEIGHTS), path, optional=(ENCODER, NOUNS, VISION, *_SORTER_FILES))
    if (SORTER in content["files"]) != (SORTER_WEIGHTS in content["files"]):
        raise InputError(f"{path} lists half a sorter: expected {SORTER} and {SORTER_WEIGHTS}; {_HOW_TO_MEND}")
    return content


def _captioner_config(table: dict[str, Any], path: Path) -> CaptionerConfig:
    """The settings of the captioner; every one must be there, as a default may change from release to release.

    All but those that came later than the format: what a captioner was made without, it has not.
    """
    table = _LATER | table
    kind = _config_kind(table.get("variant"), path)
    _check_keys(table, [field.name for field in fields(kind)], path)
    for field in fields(kind):
        value, choices = table[field.name], get_args(field.type)
        # Exactly the kind: true would pass for a whole number.
        if value not in choices if choices else type(value) is not field.type:
            expected = ", ".join(choices) or getattr(field.type, "__name__", "another kind")
            raise InputError(f"{path}: {field.name} is {value!r}: expected {expected}; {_HOW_TO_MEND}")
    try:
        return kind(**table)
    except InputError as error:
        raise InputError(f"{path}: {error}; {_HOW_TO_MEND}") from error


def _length_power(content: Mapping[str, Any], config: CaptionerConfig, path: Path) -> float:
    """By what captions are ranked; a bundle that says nothing of it ranks them as the paper does."""
    if _DECODING not in content:
        return 0.0
    _check_keys(content[_DECODING], ("length_penalty",), path)
    value = content[_DECODING]["length_penalty"]
    if type(value) not in (int, float):  # true would pass for 1
        raise InputError(f"{path}: length_penalty is {value!r}: expected a number; {_HOW_TO_MEND}")
    _check_length_power(value, config, path)
    return float(value)


def _check_length_power(value: float, config: CaptionerConfig, source: object) -> None:
    check_length_penalty(value, f"{source}: length_penalty")
    if value and config.mode == "reference":
        raise InputError(
            f"{source}: length_penalty is {value}, but a captioner in reference mode searches as the authors' code does, "
            "which knows none: expected 0, or another mode"
        )


def _config_kind(variant: object, path: Path) -> type[CaptionerConfig]:
    """What configures a captioner of this name; that of ours where there is no name, so that it is missed."""
    if variant is not None and variant not in get_args(Variant):
        raise InputError(f"{path}: variant is {variant!r}: expected {', '.join(get_args(Variant))}; {_HOW_TO_MEND}")
    return CaptionerConfig if variant is None else model_spec(str(variant)).config


def _check_keys(
    found: Mapping[str, object], expected: list[str] | tuple[str, ...], path: Path, optional: tuple[str, ...] = ()
) -> None:
    for name in expected:
        if name not in found:
            raise InputError(f"{path} lacks {name!r}, so it was cut short or edited: {_HOW_TO_MEND}")
    for name in found:
        if name not in (*expected, *optional):
            known = ", ".join((*expected, *optional))
            raise InputError(f"{path} has the unknown key {name!r}: expected {known}; {_HOW_TO_MEND}")


def _check_vocabulary(vocabulary: Vocabulary, config: CaptionerConfig, source: object) -> None:
    if len(vocabulary) != config.vocabulary_size:
        raise InputError(
            f"{source} has {len(vocabulary):,} words, but the captioner says {config.vocabulary_size:,}: "
            "expected the vocabulary it was trained with"
        )


def _check_file(path: Path, checksum: object) -> None:
    if not path.is_file():
        raise InputError(f"{path} is missing: expected it as a part of the bundle; {_HOW_TO_MEND}")
    if sha256_file(path) != checksum:
        raise InputError(f"{path} is cut short or not the file that was written (its checksum differs): {_HOW_TO_MEND}")
