"""Publish a bundle on the Hugging Face Hub, with a model card."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from sct._version import __version__
from sct.captioner.bundle import CONFIG, bundle_folder, read_bundle_config
from sct.captioner.hub import hub_errors
from sct.errors import InputError, missing_extra
from sct.storage.artifacts import sha256_file

LIBRARY = "show-control-and-tell"
TAGS = ("image-captioning", "visual-grounding", "controllable-generation", LIBRARY)
CARD, HUB_CARD = "MODEL_CARD.md", "README.md"
_METRICS = {"C": "cider", "B4": "bleu", "M": "meteor", "R": "rouge", "S": "spice"}
"""The Hub's name of each metric in the provenance of a bundle."""
_FURTHER_FILES = ("LICENSE*", "scores.json", CARD)


def push_bundle(
    folder: Path,
    repo_id: str,
    *,
    license: str = "other",  # noqa: A002  the Hub's word
    datasets: Sequence[str] = (),
    private: bool = False,
    token: str | None = None,
    message: str = "Upload a bundle of Show, Control and Tell",
) -> str:
    """Upload a bundle to a repository of the Hub, made if it does not exist; returns the address of the commit.

    ``MODEL_CARD.md`` of the bundle becomes the model card, after front matter. ``license`` and ``datasets`` are names
    of the Hub; ``token`` is by default that of ``hf auth login`` or ``HF_TOKEN``.
    """
    hub = _import_hub()
    folder = bundle_folder(folder)
    files = bundle_files(folder)
    card = model_card(folder, repo_id, license=license, datasets=datasets)
    api = hub.HfApi(token=token, library_name=LIBRARY, library_version=__version__)
    operations = [hub.CommitOperationAdd(HUB_CARD, card.encode())]
    operations += [hub.CommitOperationAdd(file.name, file) for file in files]
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        commit = api.create_commit(repo_id, operations, commit_message=message)
    except hub_errors() as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(
            f"{repo_id} cannot be uploaded to the Hugging Face Hub ({reason}): expected USER/NAME, a connection and a "
            "token that may write (hf auth login)"
        ) from error
    return str(commit.commit_url)


def bundle_files(folder: Path) -> list[Path]:
    """Files of a bundle that are published: those of its config, whose checksums must hold, licences and scores."""
    checksums = read_bundle_config(folder)["files"]
    for name, sha256 in checksums.items():
        if sha256_file(folder / name) != sha256:
            raise InputError(f"{folder / name} differs from its checksum in {CONFIG}: copy the bundle again")
    further = {file for pattern in _FURTHER_FILES for file in folder.glob(pattern)}
    return sorted({folder / CONFIG, *(folder / name for name in checksums), *further})


def model_card(
    folder: Path,
    repo_id: str,
    *,
    license: str = "other",  # noqa: A002  the Hub's word
    datasets: Sequence[str] = (),
) -> str:
    """Model card of a bundle on the Hub: front matter, then its own card or else its provenance."""
    hub, provenance = _import_hub(), read_bundle_config(folder)["provenance"]
    data = hub.ModelCardData(
        language="en",
        license=license,
        library_name=LIBRARY,
        pipeline_tag="image-to-text",
        tags=list(TAGS),
        datasets=list(datasets) or None,
        metrics=[name for key, name in _METRICS.items() if f"val_{key}" in provenance] or None,
    )
    card = folder / CARD
    body = card.read_text(encoding="utf-8") if card.is_file() else _describe(provenance)
    return f"---\n{data.to_yaml().strip()}\n---\n\n{body.strip()}\n{_USAGE.replace('USER/NAME', repo_id)}"


_USAGE = """
## Use

```python
import sct  # pip install 'show-control-and-tell[hub]'

captioner = sct.load("USER/NAME", allow_download=True)
print(captioner.caption("photo.jpg", regions=[(20, 30, 200, 310)]))
```
"""


def _describe(provenance: dict[str, Any]) -> str:
    rows = "\n".join(f"| {name} | {value} |" for name, value in provenance.items())
    return (
        "# A bundle of Show, Control and Tell\n\nControllable image captioning: regions of an image, in order or as a "
        f"set, to a caption whose noun chunks are grounded on them.\n\n| provenance | |\n| --- | --- |\n{rows}"
    )


def _import_hub() -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError as error:
        raise missing_extra("publishing on the Hugging Face Hub", "hub", error) from error
