"""Damaged bytes give an ``InputError``, never another exception, in bounded memory and time.

Every format that sct reads is a target (``*_targets.py``). ``SCT_FUZZ_EXAMPLES=1000`` damages that
many files per target instead of the few of the test suite, other ones in each run.
"""

import logging
import os
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.bulk_targets import bulk_targets
from tests.fuzz.caption_targets import caption_targets
from tests.fuzz.data_targets import data_targets
from tests.fuzz.harness import read_case, run_case
from tests.fuzz.model_targets import model_targets
from tests.fuzz.targets import Target

for _module in ("h5py", "pyarrow"):
    pytest.importorskip(_module, reason=f"{_module}, of the extra prepare, is not installed")

EXAMPLES = os.environ.get("SCT_FUZZ_EXAMPLES")
NUM_EXAMPLES = int(EXAMPLES or 25)


@pytest.fixture(scope="module", autouse=True)
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Offline, with caches of its own, without log messages about damaged files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        logging.disable(logging.CRITICAL)
        yield
        logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    folder = tmp_path_factory.mktemp("valid")
    found = [*data_targets(folder), *caption_targets(folder), *model_targets(folder), *bulk_targets(folder / "bulk")]
    return {target.name: target for target in found}


NAMES = (
    "grounded JSONL", "COCO Entities, paper", "COCO Entities, reference", "COCO Entities, release file",
    "COCO caption files", "Flickr30k Entities, paper", "Flickr30k Entities, reference",
    "Flickr30k Entities, own splits", "sct prepare", "COCO files", "image shards", "COCO layout",
    "region store", "manifest of region stores", "unfinished region store", "HDF5 detections", "detections",
    "dataset folder", "sct score",
    "partial document frequencies", "shard scores", "sct caption --out", "SPICE cache", "plain captions", "image.jpg",
    "image.jp2",
    "image.png", "image.webp", "image.gif", "image.bmp", "image.tiff", "image.ppm", "image.avif", "controls", "bundle",
    "bundle without vision", "vision encoder",
    "hub vision encoder", "sorter, sinkhorn", "sorter, pointer", "sorter, svm", "sorter, class", "authors' captioner",
    "authors' sorter", "vocabulary", "recipe default/cross_entropy.toml", "recipe sorter/flickr8k_pointer.toml",
    "recipe vision/flickr8k.toml", "run directory", "recorded runs", "glove.txt", "word2vec.txt", "word2vec.bin",
    "POST /v1/caption", "POST /v1/alternatives", "POST /v1/detect", "POST /v1/score", "multipart form",
    "uploaded image", "tar shard", "parquet shard", "parquet shard of paths", "JSONL shard", "bulk job",
)  # fmt: skip


def test_every_target_is_run(targets):
    assert tuple(targets) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_valid_files_are_accepted(name, targets, tmp_path):
    if name == "hub vision encoder":
        pytest.skip("names a model that does not exist")
    if targets[name].is_slow and not EXAMPLES:
        pytest.skip("slow: set SCT_FUZZ_EXAMPLES")
    read_case(targets[name], targets[name].files, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_refused_or_harmless(name, targets, tmp_path):
    target = targets[name]
    if target.is_slow and not EXAMPLES:
        pytest.skip("slow: set SCT_FUZZ_EXAMPLES")

    @settings(
        max_examples=max(1, int(NUM_EXAMPLES * target.num_examples)),
        derandomize=EXAMPLES is None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def run(random: Random) -> None:
        run_case(target, random, tmp_path)

    run()
