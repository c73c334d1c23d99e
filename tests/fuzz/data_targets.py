"""Sources of datasets, region stores and dataset folders."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from sct.data.dataset import Dataset
from sct.data.examples import make_examples
from sct.data.index import caption_text, region_of_member
from sct.data.prepare import PrepareConfig, prepare
from sct.data.readers.errors import ReadErrors, SkipCounts
from sct.data.records import AnnotatedImage
from sct.data.samples import make_samples
from sct.data.sources import SourceOptions, open_source
from sct.data.statistics import compute_statistics
from sct.data.table import build_table
from sct.errors import InputError
from sct.regions.detections import Detections, DetectionVocabulary
from sct.regions.detections_writer import write_detections
from sct.regions.hdf5 import convert_hdf5, read_class_names
from sct.regions.image_source import ImageSource
from sct.regions.sharded_store import open_store
from sct.regions.store_format import JOURNAL
from sct.regions.store_manifest import write_manifest
from sct.regions.store_writer import RegionStoreWriter
from tests.factories import make_detection_batch, make_noun_dataset
from tests.fuzz import binary_mutations as binary
from tests.fuzz.targets import Target, read_folder

CLASSES = ("dog", "man")


def data_targets(folder: Path) -> Iterator[Target]:
    """All targets; ``folder`` is for temporary files."""
    yield from _sources(folder)
    yield from _region_stores(folder)
    yield _detections(folder / "detections")
    make_noun_dataset(folder / "dataset")
    yield Target("dataset folder", read_folder(folder / "dataset"), _use_dataset)


# Sources of ``sct prepare`` ------------------------------------------------------------------------------------------


def _sources(folder: Path) -> Iterator[Target]:
    yield Target("grounded JSONL", {"train.jsonl": _grounded_jsonl()}, _read_source)
    images = [
        {
            "cocoid": 42,
            "filename": "42.jpg",
            "filepath": "train2014",
            "split": "train",
            "sentences": [{"raw": "A dog near a man."}, {"raw": "A man walks his dog."}],
        },
        {"cocoid": 7, "filename": "7.jpg", "filepath": "val2014", "split": "val", "sentences": [{"raw": "A dog."}]},
    ]
    karpathy = json.dumps({"images": images}).encode()
    entities = {
        "42": {"a dog near a man": [["a dog", "dog"], ["a man", "man"]], "a man walks his dog": [["a man", "man"]]},
        "7": {"a dog": [["a dog", "dog"]]},
    }
    _make_store(folder / "store", ["42", "7"])
    store = {f"store/{name}": content for name, content in read_folder(folder / "store").items()}
    for mode in ("paper", "reference"):
        files = {
            "coco_entities.json": json.dumps(entities).encode(),
            "dataset_coco.json": karpathy,
            "coco_img_shapes.json": json.dumps({"42": [640, 480], "7": [100, 80]}).encode(),
        }
        yield Target(
            f"COCO Entities, {mode}",
            {**files, **store},
            lambda path, mode=mode: _read_source(path, mode=mode, features=path / "store"),
            stable=frozenset(store),
        )
    release = {
        "42": {
            "a dog near a man": {
                "det_sequences": ["dog", "dog", None, "man", "man"],
                "noun_chunks": [["a dog", "dog"], ["a man", "man"]],
                "detections": {"dog": [[0, [1.0, 2.0, 50.5, 60.0]]], "man": [[1, [5, 5, 90, 90]], [3, [7, 5, 95, 90]]]},
                "split": "train",
            }
        }
    }
    yield Target(
        "COCO Entities, release file", {"coco_entities_release.json": json.dumps(release).encode()}, _read_source
    )
    yield _coco_caption_files(entities, store)
    yield from _flickr30k(karpathy)
    yield Target("sct prepare", {"train.jsonl": _grounded_jsonl()}, _prepare, num_examples=0.02, is_slow=True)
    yield _coco_files()
    yield Target("image shards", _image_shards(), _use_images, {".tar": binary.mutate_tar})
    yield Target("COCO layout", {"train.parquet": _parquet()}, _read_source, {".parquet": binary.mutate_parquet})


def _read_source(path: Path, *, mode: str = "paper", features: Path | None = None, splits: Path | None = None) -> None:
    """Read all images twice: with the first bad input as an error, and with all of them skipped."""
    found = path if (path / "Sentences").is_dir() else min(path.glob("*.*"), key=lambda file: file.name)
    options = SourceOptions(mode=mode, features=features, splits=splits)  # type: ignore[arg-type]
    for skip in (True, False):
        images = list(open_source(found, options).read(ReadErrors(skip=skip), SkipCounts()))
        _build_table(images)


def _build_table(images: list[AnnotatedImage]) -> None:
    for image in images:
        try:
            build_table([image])
        except InputError:  # a caption that spaCy would ground
            continue


def _prepare(path: Path) -> None:
    prepare(path / "train.jsonl", path / "out", PrepareConfig(skip_bad=True, workers=1))
    _use_dataset(path / "out")


def _grounded_jsonl() -> bytes:
    mention = {"phrase": "A boy", "span": [0, 2], "boxes": [[120.3, 22.8, 280.2, 134.9], [1, 2, 3, 4]]}
    lines = [
        {
            "image": "a.jpg",
            "width": 336,
            "height": 249,
            "captions": [
                {"text": "A boy slides into a pool.", "mentions": [mention]},
                {"text": "A boy .", "mentions": None},
            ],
            "regions": [{"box": [120, 22, 280, 134], "class": "person", "score": 0.9}],
        },
        {"image": "b.jpg", "width": 10, "height": 9.5, "captions": [{"text": "A dog .", "mentions": []}]},
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def _coco_caption_files(entities: object, store: dict[str, bytes]) -> Target:
    """The folder of splits that the authors publish."""

    def captions(image_id: int, *texts: str) -> bytes:
        images = [{"id": image_id, "file_name": f"{image_id}.jpg", "width": 640, "height": 480}]
        annotations = [
            {"id": image_id * 10 + number, "image_id": image_id, "caption": text} for number, text in enumerate(texts)
        ]
        return json.dumps({"images": images, "annotations": annotations}).encode()

    def ids(*numbers: int) -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, np.array(numbers, np.int64))
        return buffer.getvalue()

    files = {
        "splits/captions_train2014.json": captions(42, "A dog near a man.", "A man walks his dog."),
        "splits/captions_val2014.json": captions(7, "A dog."),
        "splits/coco_train_ids.npy": ids(420, 421),
        "splits/coco_restval_ids.npy": ids(),
        "splits/coco_dev_ids.npy": ids(70),
        "splits/coco_test_ids.npy": ids(),
        "coco_entities.json": json.dumps(entities).encode(),
    }
    return Target(
        "COCO caption files",
        {**files, **store},
        lambda path: _read_source(path, features=path / "store", splits=path / "splits"),
        {".npy": binary.mutate_npy},
        stable=frozenset({*store, "splits/coco_restval_ids.npy", "splits/coco_test_ids.npy"}),
    )


def _coco_files() -> Target:
    images = [{"id": 42, "file_name": "42.jpg", "width": 640, "height": 480}]
    boxes = [
        {"image_id": 42, "category_id": 18, "bbox": [1, 2.5, 30, 40], "iscrowd": 0, "segmentation": [[1.5, 2, 3, 4]]},
        {"image_id": 42, "category_id": 1, "bbox": [0, 0, 0, 40], "iscrowd": 0, "segmentation": {"counts": [1]}},
    ]
    categories = [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}]
    captions = [{"id": 1, "image_id": 42, "caption": "A dog."}]
    files = {
        "captions_val2017.json": {"images": images, "annotations": captions},
        "instances_val2017.json": {"images": images, "annotations": boxes, "categories": categories},
    }
    return Target("COCO files", {name: json.dumps(content).encode() for name, content in files.items()}, _read_source)


def _image_shards() -> dict[str, bytes]:
    """Shards of the formats that tar files have; a long name has a header of its own."""
    photo = io.BytesIO()
    Image.new("RGB", (6, 4)).save(photo, "PNG")
    shards = {}
    for number, kind in enumerate((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)):
        shard = io.BytesIO()
        with tarfile.open(fileobj=shard, mode="w", format=kind) as tar:
            for name in (f"{number}.png", f"{'long' * 24}/{'name' * 22}{number}.png"):
                info = tarfile.TarInfo(name)
                info.size = photo.getbuffer().nbytes
                tar.addfile(info, io.BytesIO(photo.getvalue()))
        shards[f"{number}.tar"] = shard.getvalue()
    return shards


def _use_images(path: Path) -> None:
    source = ImageSource.open(path)
    for name in source.names:
        source.find(Path(name).stem)
        source.load(name)


def _flickr30k(karpathy: bytes) -> Iterator[Target]:
    boxes = [("1", 11, 21, 30, 60), ("2", 50, 10, 59, 19)]
    objects = "\n".join(
        f"<object>\n<name>{chain}</name>\n<bndbox><xmin>{x1}</xmin>\n<ymin>{y1}</ymin><xmax>{x2}</xmax>\n"
        f"<ymax>{y2}</ymax></bndbox></object>"
        for chain, x1, y1, x2, y2 in boxes
    )
    scene = "<object><name>3</name><scene>1</scene><nobox>0</nobox></object>"
    size = "<size><width>100</width><height>80</height><depth>3</depth></size>"
    annotations = f"<annotation>\n<filename>42.jpg</filename>\n{size}\n{objects}\n{scene}</annotation>"
    sentences = "[/EN#1/people A man] in [/EN#2/clothing/other a hat] on [/EN#3/scene the street] .\nA man .\n"
    images = json.loads(karpathy)["images"]
    for image in images:
        del image["cocoid"]
    files = {
        "Sentences/42.txt": sentences.encode(),
        "Annotations/42.xml": annotations.encode(),
        "dataset_flickr30k.json": json.dumps({"images": images[:1]}).encode(),
    }
    for mode in ("paper", "reference"):
        yield Target(f"Flickr30k Entities, {mode}", files, lambda path, mode=mode: _read_source(path, mode=mode))
    own_splits = {name: content for name, content in files.items() if not name.endswith(".json")}
    yield Target("Flickr30k Entities, own splits", {**own_splits, "train.txt": b"42\n"}, _read_source)


def _parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {"image_id": 1, "captions": ["A dog.", "A man"], "classes": [0, 16], "boxes": [[0.5, 0.5, 0.5, 1.0]] * 2},
        {"image_id": 2, "captions": ["A cat."], "classes": [15], "boxes": [[0.25, 0.25, 0.5, 0.25]]},
    ]
    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


# Region stores -------------------------------------------------------------------------------------------------------


def _region_stores(folder: Path) -> Iterator[Target]:
    arrays = dict.fromkeys((".f16", ".f32", ".u16", ".u64"), binary.mutate_array)
    yield Target("region store", read_folder(folder / "store"), _use_store, arrays)
    yield _store_manifest(folder / "stores")
    _make_store(folder / "unfinished", ["1", "2"], finish=False)
    yield Target(
        "unfinished region store",
        read_folder(folder / "unfinished"),
        _resume_store,
        {JOURNAL: binary.mutate_journal, **arrays},
    )
    yield Target(
        "HDF5 detections",
        {"detections.h5": _hdf5(folder), "classes.txt": b"Dog, hound\nman\n"},
        _convert_hdf5,
        {".h5": binary.mutate_hdf5},
    )


def _make_store(folder: Path, image_ids: list[str], *, finish: bool = True) -> None:
    rng = np.random.default_rng(1)
    with RegionStoreWriter(folder, feature_size=3, class_names=CLASSES, source="fuzz", expected=2) as writer:
        for image_id in image_ids:
            corners = rng.uniform(0, 50, (4, 2))
            writer.append(
                image_id,
                features=rng.normal(size=(4, 3)),
                boxes=np.hstack([corners, corners + 10]),
                classes=np.array([0, 1, 1, 65535]),
                scores=rng.random(4),
                width=640,
                height=480,
            )
        if finish:
            writer.finish()


def _use_store(path: Path) -> None:
    store = open_store(path)
    for image_id in store.ids:
        store.regions(image_id)
    store.gather(store.ids, out=store.new_buffer(len(store)))


def _store_manifest(folder: Path) -> Target:
    """Two region stores, and the manifest over them."""
    for name, image_ids in (("a", ["42", "7"]), ("b", ["8", "9"])):
        _make_store(folder / name, image_ids)
    write_manifest([folder / "a", folder / "b"], folder)
    files = read_folder(folder)
    return Target("manifest of region stores", files, _use_store, stable=frozenset(files) - {"stores.json"})


def _resume_store(path: Path) -> None:
    with RegionStoreWriter(path, feature_size=3, class_names=CLASSES, source="fuzz", expected=2) as writer:
        if len(writer) == 2:
            writer.finish()
            _use_store(path)


def _hdf5(folder: Path) -> bytes:
    import h5py

    rng = np.random.default_rng(1)
    with h5py.File(folder / "detections.h5", "w") as file:
        for image_id in ("10", "11"):
            corners = rng.uniform(0, 50, (4, 2)).astype(np.float32)
            file[f"{image_id}_features"] = rng.normal(size=(4, 3)).astype(np.float32)
            file[f"{image_id}_boxes"] = np.hstack([corners, corners + 10])
            file[f"{image_id}_cls_prob"] = rng.dirichlet(np.ones(3), 4).astype(np.float32)
    return (folder / "detections.h5").read_bytes()


def _convert_hdf5(path: Path) -> None:
    out = path / "out"
    try:
        convert_hdf5(path / "detections.h5", out, class_names=read_class_names(path / "classes.txt"))
    except InputError:
        assert not out.exists(), "a refused conversion left files behind"
        raise
    _use_store(out)


# Detections ----------------------------------------------------------------------------------------------------------


def _detections(folder: Path) -> Target:
    folder.mkdir()
    vocabulary = DetectionVocabulary(class_names=CLASSES, words=("red",), attributes=("red",), encoder_sha256="")
    batches = [make_detection_batch(vocabulary, ids) for ids in (["1", "2", "3"], ["4"])]
    write_detections(folder / "x.safetensors", vocabulary, batches, max_file_bytes=1)
    return Target("detections", read_folder(folder), _use_detections)


def _use_detections(path: Path) -> None:
    detections = Detections.open(path / "x.safetensors")
    for image_id in detections.image_ids:
        if image_id in detections:  # a damaged id may not be a key
            detections.get(image_id)


# Dataset folders -----------------------------------------------------------------------------------------------------


def _use_dataset(path: Path) -> None:
    dataset = Dataset.open(path)
    for image in dataset:
        dataset.load_image(image)
    table = dataset.table
    compute_statistics(table)
    region_of_member(table)
    for caption in range(len(table.columns["auto_grounded"])):
        caption_text(table, caption)
    for split in table.splits:
        make_examples(table, split, dataset.vocabulary.with_min_count(1))
        for control in ("sequence", "set", "none"):
            make_samples(table, split, control)
