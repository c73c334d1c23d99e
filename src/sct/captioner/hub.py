"""Bundles on the Hugging Face Hub, found by name in its cache or downloaded to it."""

import re
import sys
from importlib import import_module
from pathlib import Path

from sct.errors import InputError, missing_extra

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_FILES = ("*.toml", "*.json", "*.safetensors", "*.md", "LICENSE*")
_FILE_SUFFIXES = (".safetensors", ".toml", ".json", ".jsonl", ".pth")
"""Of files of this project: such a name is a path that does not exist rather than a bundle of the Hub."""


def is_hub_name(name: str | Path) -> bool:
    """Whether a bundle is named as on the Hub, "user/name", and is no path on this machine.

    >>> is_hub_name("user/captioner"), is_hub_name("user/captioner/best"), is_hub_name("vision/new.safetensors")
    (True, False, False)
    """
    text = str(name)
    return bool(_NAME.fullmatch(text)) and not text.endswith(_FILE_SUFFIXES) and not Path(text).exists()


def find_hub_bundle(name: str, *, revision: str | None = None, allow_download: bool = False) -> Path:
    """Folder of a bundle in the Hub's cache; only with ``allow_download`` the Hub itself is asked."""
    try:
        hub = import_module("huggingface_hub")
    except ImportError as error:
        raise (
            _not_found(name) if not allow_download else missing_extra("a bundle of the Hugging Face Hub", "hub", error)
        ) from error
    try:
        folder = hub.snapshot_download(
            name, revision=revision, local_files_only=not allow_download, allow_patterns=list(_FILES)
        )
    except hub_errors() as error:
        if not allow_download:
            raise _not_found(name) from error
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"bundle {name} cannot be downloaded from the Hugging Face Hub ({reason}): check the name, the connection "
            "and, for a private one, HF_TOKEN"
        ) from error
    return Path(folder)


def hub_errors() -> tuple[type[Exception], ...]:
    """What the Hub's client raises for names, answers and connections; of its HTTP library, if that is loaded."""
    libraries = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    return OSError, ValueError, *(library.HTTPError for library in libraries)


def _not_found(name: str) -> InputError:
    return InputError(
        f"{name} does not exist: expected the folder of a bundle, as sct train writes, or default, or a bundle of the "
        "Hugging Face Hub in its cache: --allow-download, or allow_download=True, downloads it"
    )
