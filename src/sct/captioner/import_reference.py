"""Convert a checkpoint that the authors released into a bundle."""

from pathlib import Path

from sct.captioner.bundle import Bundle, check_new_folder, load_bundle, save_bundle
from sct.errors import InputError
from sct.language.vocabulary import read_vocabulary
from sct.models.import_reference import read_reference
from sct.models.registry import build_from_state_dict
from sct.storage.artifacts import sha256_file
from sct.storage.toml import TomlValue


def import_reference(checkpoint: Path, vocabulary: Path, out: Path) -> Bundle:
    """Write a bundle of the authors' checkpoint and the vocabulary it was trained with; return the loaded bundle."""
    check_new_folder(out)
    words = read_vocabulary(vocabulary)
    reference = read_reference(checkpoint)
    if len(words) != reference.config.vocabulary_size:
        raise InputError(
            f"{vocabulary} has {len(words):,} words with the four special tokens, but {checkpoint} has "
            f"{reference.config.vocabulary_size:,}: give the vocabulary that it was trained with"
        )
    provenance: dict[str, TomlValue] = {"source": checkpoint.name, "source_sha256": sha256_file(checkpoint)}
    if reference.epoch is not None:
        provenance["epoch"] = reference.epoch
    if reference.val_cider is not None:
        provenance["val_cider"] = reference.val_cider
    save_bundle(out, build_from_state_dict(reference.config, reference.weights), words, provenance=provenance)
    return load_bundle(out)
