"""Models of the hub by their names, whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from safetensors import SafetensorError
from torch import nn

from sct.errors import InputError

_FAULTS = (ImportError, OSError, RuntimeError, SafetensorError, ValueError)
"""What transformers is known to raise where a name leads nowhere, or to something that it cannot read."""
_UNUSED = "pooler"
"""A part that some encoders have for another purpose, and their weights often lack."""


@dataclass(frozen=True, slots=True, eq=False)
class PretrainedModel:
    """A model, with what prepares images for it."""

    model: nn.Module
    config: Any
    processor: Any
    revision: str | None
    """The commit that it was; none for a local folder."""


def fetch_backbone(name: str, revision: str | None) -> PretrainedModel:
    """A network that makes a map of an image, or, where transformers knows it as none, an encoder of patches."""
    library = _library()
    with _refused_by_name("backbone", name, library):
        config = library.AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=False)
        commit = _commit(config, revision)
        known = library.MODEL_FOR_BACKBONE_MAPPING
        # Not AutoBackbone: it asks the hub even about a local folder.
        if type(config) in known:
            _ask_for_the_last_map(config)
            kind = known[type(config)]
        elif type(config) in library.MODEL_FOR_OBJECT_DETECTION_MAPPING:
            raise ValueError("it is a detector, and not all of its vectors are of patches")
        else:
            config = getattr(config, "vision_config", config)  # of a model that reads as well
            kind = library.AutoModel
        model, about = kind.from_pretrained(name, config=config, revision=commit, output_loading_info=True)
        processor = library.AutoImageProcessor.from_pretrained(name, revision=commit, trust_remote_code=False)
    _check_nothing_is_random(model, about, "backbone", name)
    return PretrainedModel(model.float().eval(), config, processor, commit)


def fetch_detector(name: str, revision: str | None) -> PretrainedModel:
    """A network that finds objects of the classes it knows."""
    library = _library()
    with _refused_by_name("detector", name, library):
        config = library.AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=False)
        commit = _commit(config, revision)
        model, about = library.AutoModelForObjectDetection.from_pretrained(
            name, config=config, revision=commit, output_loading_info=True, trust_remote_code=False
        )
        processor = library.AutoImageProcessor.from_pretrained(name, revision=commit, trust_remote_code=False)
    _check_nothing_is_random(model, about, "detector", name)
    return PretrainedModel(model.float().eval(), config, processor, commit)


def _library() -> Any:
    """Transformers; its import takes seconds, so only who needs it waits."""
    try:
        return import_module("transformers")
    except ImportError as error:
        raise InputError(
            f"models of the Hugging Face hub need transformers, which is not at hand ({error}): "
            "pip install 'show-control-and-tell[hub]'"
        ) from error


def _commit(config: Any, revision: str | None) -> str | None:
    """What a branch or a tag stands for now, so that it stands for the same tomorrow."""
    commit = getattr(config, "_commit_hash", None)
    return revision if commit is None else str(commit)


def _ask_for_the_last_map(config: Any) -> None:
    stages = getattr(config, "stage_names", None)
    if stages:
        config.out_indices = [len(stages) - 1]


@contextmanager
def _refused_by_name(what: str, name: str, library: Any) -> Iterator[None]:
    """Say what cannot be had and what to do; meanwhile transformers keeps to itself what it would print."""
    logging = library.utils.logging
    before, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except _FAULTS as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{what} {name!r} cannot be had ({why}): expected the name of a {what} on the Hugging Face hub, which needs "
            "a connection the first time, or a local folder that holds its config.json, preprocessor_config.json and "
            "weights"
        ) from error
    finally:
        logging.set_verbosity(before)
        if had_bars:
            logging.enable_progress_bar()


def _check_nothing_is_random(model: nn.Module, about: Any, what: str, name: str) -> None:
    """Refuse weights that do not fill the model: what is missing is drawn at random, but for what is neutral."""
    tensors = model.state_dict()
    missing = sorted(
        key
        for key in about["missing_keys"]
        if _UNUSED not in key.split(".") and key in tensors and len(tensors[key].unique()) > 1
    )
    if missing:
        raise InputError(
            f"the weights of {what} {name!r} lack {len(missing)} tensors of the network, such as {missing[0]}: expected "
            f"the name of a {what} that was trained as one"
        )
