"""Load pretrained backbones and detectors from the Hugging Face Hub or a local folder."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn

from sct.errors import InputError, format_value, missing_extra

_LOADING_ERRORS = (ImportError, OSError, RuntimeError, SafetensorError, ValueError)
"""What transformers raises for names that do not exist and for models that it cannot read."""
_UNUSED_MODULE = "pooler"
"""Module that some encoders have for another task and whose weights are often missing."""


@dataclass(frozen=True, slots=True, eq=False)
class PretrainedModel:
    """A model with its config and image processor."""

    model: nn.Module
    config: Any
    processor: Any
    revision: str | None
    """Commit that was loaded; None for a local folder."""


def load_backbone(name: str, revision: str | None, *, allow_download: bool = False) -> PretrainedModel:
    """Load a model as a backbone, or, if transformers has no backbone class for it, as an encoder of patches."""
    library = _import_transformers()
    options = {"local_files_only": not allow_download}
    with _loading("backbone", name, library, allow_download=allow_download):
        config = library.AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=False, **options)
        commit = _commit(config, revision)
        backbones = library.MODEL_FOR_BACKBONE_MAPPING
        # Not AutoBackbone, which queries the Hub even for a local folder.
        if type(config) in backbones:
            _select_last_stage(config)
            model_class = backbones[type(config)]
        elif type(config) in library.MODEL_FOR_OBJECT_DETECTION_MAPPING:
            raise ValueError("it is a detector, whose tokens are not all patches")
        else:
            config = getattr(config, "vision_config", config)  # of a vision-language model
            model_class = library.AutoModel
        model, loading_info = model_class.from_pretrained(
            name, config=config, revision=commit, output_loading_info=True, **options
        )
        processor = library.AutoImageProcessor.from_pretrained(
            name, revision=commit, trust_remote_code=False, **options
        )
    _check_missing_weights(model, loading_info, "backbone", name)
    return PretrainedModel(model.float().eval(), config, processor, commit)


def load_detector(name: str, revision: str | None, *, allow_download: bool = False) -> PretrainedModel:
    """Load an object detector."""
    library = _import_transformers()
    options = {"local_files_only": not allow_download}
    with _loading("detector", name, library, allow_download=allow_download):
        config = library.AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=False, **options)
        commit = _commit(config, revision)
        model, loading_info = library.AutoModelForObjectDetection.from_pretrained(
            name, config=config, revision=commit, output_loading_info=True, trust_remote_code=False, **options
        )
        processor = library.AutoImageProcessor.from_pretrained(
            name, revision=commit, trust_remote_code=False, **options
        )
    _check_missing_weights(model, loading_info, "detector", name)
    return PretrainedModel(model.float().eval(), config, processor, commit)


def _import_transformers() -> Any:
    """Import transformers lazily; it takes seconds."""
    try:
        return import_module("transformers")
    except ImportError as error:
        raise missing_extra("a model of the Hugging Face Hub", "hub", error) from error


def _commit(config: Any, revision: str | None) -> str | None:
    """Commit that a branch or tag resolves to now."""
    commit = getattr(config, "_commit_hash", None)
    return revision if commit is None else str(commit)


def _select_last_stage(config: Any) -> None:
    stages = getattr(config, "stage_names", None)
    if stages:
        config.out_indices = [len(stages) - 1]


def is_folder(name: str) -> bool:
    """Whether a model is named by a local folder."""
    try:
        return Path(name).is_dir()
    except OSError:  # too long for a path
        return False


@contextmanager
def _loading(role: str, name: str, library: Any, *, allow_download: bool) -> Iterator[None]:
    """Turn loading errors into ``InputError`` and silence the logs and progress bars of transformers and the Hub."""
    transformers_log, hub_log = library.utils.logging, logging.getLogger("huggingface_hub")
    verbosity, had_bars = transformers_log.get_verbosity(), transformers_log.is_progress_bar_enabled()
    hub_level = hub_log.level
    transformers_log.set_verbosity_error()
    transformers_log.disable_progress_bar()
    hub_log.setLevel(logging.ERROR)  # else it prints each of its retries
    try:
        yield
    except _LOADING_ERRORS as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if not allow_download and not is_folder(name):
            raise InputError(
                f"{role} {format_value(name)} is not on this machine ({reason[:200]}): download it from the Hugging "
                "Face Hub with --allow-download of sct caption, or allow_download=True in Python"
            ) from error
        raise InputError(
            f"{role} {name!r} cannot be loaded ({reason}): give the name of a {role} on the Hugging Face Hub, which "
            "needs a connection the first time, or a local folder with config.json, preprocessor_config.json and "
            "weights"
        ) from error
    finally:
        hub_log.setLevel(hub_level)
        transformers_log.set_verbosity(verbosity)
        if had_bars:
            transformers_log.enable_progress_bar()


def _check_missing_weights(model: nn.Module, loading_info: Any, role: str, name: str) -> None:
    """Raise if the checkpoint lacks weights: transformers initialises those at random, except constant ones."""
    tensors = model.state_dict()
    missing = sorted(
        key
        for key in loading_info["missing_keys"]
        if _UNUSED_MODULE not in key.split(".") and key in tensors and len(tensors[key].unique()) > 1
    )
    if missing:
        raise InputError(
            f"the checkpoint of {role} {name!r} lacks {len(missing)} tensors of the model, such as {missing[0]}: use a "
            f"model that was trained as a {role}"
        )
