"""Resumable writer of a region store.

Arrays are append-only. From time to time they are flushed to disk and a line in ``journal.txt`` records how much is
committed; a resumed build truncates the arrays to the last such line. ``finish`` writes the manifest, which makes the
folder a store, atomically.
"""

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Float, Float16, Integer

from sct.errors import InputError
from sct.limits import MAX_COORDINATE, MAX_LAYER_SIZE, check_integer
from sct.regions.records import NO_CLASS
from sct.regions.store_format import (
    FORMAT,
    JOURNAL,
    MANIFEST,
    array_bytes,
    journal_line,
    read_journal,
    read_names,
)
from sct.storage.atomic import (
    atomic_write,
    fsync_dir,
    lock,
    make_folder,
    name_file_in_errors,
    remove_empty_folders,
)

COMMIT_IMAGES = 256
COMMIT_BYTES = 64 << 20
"""A killed build loses at most this much; flushing every image would take longer than writing it."""


class RegionStoreWriter:
    """Starts a build or resumes an unfinished one; a context manager.

    Without a call of ``finish`` the build stays unfinished and can be resumed.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        feature_size: int,
        class_names: Sequence[str] = (),
        source: str = "",
        expected: int | None = None,
        commit_images: int = COMMIT_IMAGES,
    ) -> None:
        """``source`` and ``expected``, the number of images, must be the same when a build is resumed."""
        check_integer("feature_size", feature_size, 1, MAX_LAYER_SIZE)
        if len(class_names) > NO_CLASS:
            raise InputError(f"got {len(class_names)} class names, expected at most {NO_CLASS}")
        for name in class_names:
            if "\n" in name:
                raise InputError(f"class name {name!r} has a line break: expected one line")
        self.path = Path(path)
        self.feature_size = feature_size
        self.class_names = tuple(class_names)
        self._header = {
            **FORMAT.header(),
            "feature_size": feature_size,
            "source": source,
            "expected": expected,
            "class_names": list(class_names),
        }
        self._commit_images = commit_images
        self._ids: dict[str, None] = {}
        self._regions = 0
        self._id_bytes = 0
        self._committed = 0  # images
        self._committed_regions = 0
        self._torn = False  # an image is partly written
        self._closed = False
        self._open_files = ExitStack()
        try:
            self._journal = self._open_journal()
            self._files = self._open_arrays()
        except BaseException:
            self._open_files.close()
            raise

    def __enter__(self) -> "RegionStoreWriter":
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, unless an exception was raised, and close the files; a refused build without an image is removed."""
        if kind is None and not self._closed:
            self.commit()
        if kind is not None and issubclass(kind, InputError) and not self._committed:
            for name in (*self._files, JOURNAL):
                with suppress(OSError):  # which would hide the error
                    (self.path / name).unlink(missing_ok=True)
            remove_empty_folders(self._made_folders)
        self.close()

    def __len__(self) -> int:
        """Number of images so far, including those before a resume."""
        return len(self._ids)

    def __contains__(self, image_id: object) -> bool:
        """Whether the image has been appended."""
        return image_id in self._ids

    @property
    def ids(self) -> tuple[str, ...]:
        """Image ids so far, in order."""
        return tuple(self._ids)

    def append(
        self,
        image_id: str,
        *,
        features: Float[np.ndarray, "regions features"],
        boxes: Float[np.ndarray, "boxes corners"],
        classes: Integer[np.ndarray, " classes"] | None = None,
        scores: Float[np.ndarray, " scores"] | None = None,
        width: float | None = None,
        height: float | None = None,
    ) -> None:
        """Append an image; ``classes`` index the class names, 65535 is no class; scores may be NaN."""
        encoded = self._encode_id(image_id)
        half = self._to_float16(image_id, features)
        num_regions = len(half)
        if classes is None:
            classes = np.full(num_regions, NO_CLASS)
        if scores is None:
            scores = np.full(num_regions, np.nan)
        if boxes.shape != (num_regions, 4) or not (np.abs(boxes) <= np.float64(MAX_COORDINATE)).all():
            raise InputError(
                f"boxes of image {image_id!r} are {boxes.shape}, or not all finite and below {MAX_COORDINATE:,}: "
                f"expected ({num_regions}, 4), a box for each row of features"
            )
        if classes.shape != (num_regions,) or not ((classes == NO_CLASS) | self._is_class(classes)).all():
            raise InputError(
                f"classes of image {image_id!r} are {classes.shape}, or out of range: expected ({num_regions},), "
                f"each below {len(self.class_names)} or {NO_CLASS}"
            )
        if scores.shape != (num_regions,) or not (np.isnan(scores) | ((scores >= 0) & (scores <= 1))).all():
            raise InputError(
                f"scores of image {image_id!r} are {scores.shape}, or out of range: expected ({num_regions},), "
                "each from 0 to 1 or NaN"
            )
        size = [_check_side(image_id, width), _check_side(image_id, height)]

        self._check_usable()
        self._torn = True
        contents = {
            "features.f16": half.tobytes(),
            "boxes.f32": boxes.astype("<f4").tobytes(),
            "classes.u16": classes.astype("<u2").tobytes(),
            "scores.f32": scores.astype("<f4").tobytes(),
            "ends.u64": np.array(self._regions + num_regions, dtype="<u8").tobytes(),
            "sizes.f32": np.array(size, dtype="<f4").tobytes(),
            "images.txt": encoded,
        }
        for name, content in contents.items():
            with name_file_in_errors(self.path / name):
                self._files[name].write(content)
        self._ids[image_id] = None
        self._regions += num_regions
        self._id_bytes += len(encoded)
        self._torn = False

        pending_bytes = (self._regions - self._committed_regions) * self.feature_size * 2
        if len(self) - self._committed >= self._commit_images or pending_bytes >= COMMIT_BYTES:
            self.commit()

    def commit(self) -> None:
        """Flush the arrays to disk, then record it in the journal."""
        self._check_usable()
        if len(self) == self._committed:
            return
        for name, file in self._files.items():
            with name_file_in_errors(self.path / name):
                file.flush()
                os.fsync(file.fileno())
        line = {"images": len(self), "regions": self._regions, "id_bytes": self._id_bytes}
        with name_file_in_errors(self.path / JOURNAL):
            self._journal.write(journal_line(line))
            self._journal.flush()
            os.fsync(self._journal.fileno())
        self._committed, self._committed_regions = len(self), self._regions

    def finish(self) -> None:
        """Write the manifest and close the store."""
        self._check_usable()
        expected = self._header["expected"]
        if expected is not None and len(self) != expected:
            raise InputError(f"{self.path} has {len(self)} of {expected} images: expected all of them before finish")
        self.commit()
        with atomic_write(self.path / "classes.txt") as file:
            file.write("".join(f"{name}\n" for name in self.class_names).encode())
        sizes = array_bytes(len(self), self._regions, self.feature_size)
        sizes |= {name: (self.path / name).stat().st_size for name in ("images.txt", "classes.txt")}
        manifest = {
            **FORMAT.header(),
            "source": self._header["source"],
            "images": len(self),
            "regions": self._regions,
            "feature_size": self.feature_size,
            "classes": len(self.class_names),
            "bytes": sizes,
        }
        with atomic_write(self.path / MANIFEST) as file:
            file.write(json.dumps(manifest, indent=1, ensure_ascii=False).encode())
        self.close()
        (self.path / JOURNAL).unlink()

    def close(self) -> None:
        """Close the files without a commit; may be called twice."""
        self._closed = True
        self._open_files.close()

    def _check_usable(self) -> None:
        if self._closed:
            raise InputError(f"the build of {self.path} is closed: open it again to append images")
        if self._torn:
            raise InputError(
                f"an image was written to {self.path} only in part: open the build again, which removes it"
            )

    def _is_class(self, classes: Integer[np.ndarray, " classes"]) -> np.ndarray:
        return (classes >= 0) & (classes < len(self.class_names))

    def _encode_id(self, image_id: str) -> bytes:
        if not image_id or "\n" in image_id:
            raise InputError(f"image id {image_id!r} is empty or has a line break: expected one line of text")
        if image_id in self._ids:
            raise InputError(f"image {image_id!r} is in {self.path} already: expected each image once")
        try:
            return f"{image_id}\n".encode()
        except UnicodeEncodeError as error:
            raise InputError(f"image id {image_id!r} is not valid text: {error.reason}") from error

    def _to_float16(
        self, image_id: str, features: Float[np.ndarray, "regions features"]
    ) -> Float16[np.ndarray, "regions features"]:
        if features.ndim != 2 or features.shape[1] != self.feature_size:
            raise InputError(
                f"features of image {image_id!r} are {features.shape}: expected (regions, {self.feature_size})"
            )
        with np.errstate(over="ignore"):  # becomes infinite, which fails below
            half = features.astype("<f2")
        if not np.isfinite(half).all():
            raise InputError(
                f"features of image {image_id!r} are not all finite in half precision: expected numbers within +-65504"
            )
        return half

    def _open_journal(self) -> BinaryIO:
        """Lock the build and read how much is committed."""
        if (self.path / MANIFEST).exists():
            raise InputError(f"{self.path} is a finished region store: delete it to build it again")
        self._made_folders = make_folder(self.path)
        path = self.path / JOURNAL
        if not path.exists() and any(self.path.iterdir()):
            raise InputError(f"{self.path} has files of something else: expected a new or empty folder")
        journal = self._open_files.enter_context(path.open("ab"))
        lock(journal, self.path)
        lines = read_journal(path)
        if not lines:  # new, or killed before the first line was complete
            journal.truncate(0)
            journal.write(journal_line(self._header))
            journal.flush()
            os.fsync(journal.fileno())
            return journal
        header, end = lines[0]
        self._check_same_build(header)
        if len(lines) > 1:
            state, end = lines[-1]
            self._committed, self._committed_regions = state["images"], state["regions"]
            self._regions, self._id_bytes = state["regions"], state["id_bytes"]
        journal.truncate(end)
        return journal

    def _check_same_build(self, header: dict[str, Any]) -> None:
        for name, expected in self._header.items():
            found = header.get(name)
            if found == expected:
                continue
            if name == "class_names":
                raise InputError(
                    f"{self.path} is an unfinished build with other class names: "
                    "resume it with the same ones, or delete it"
                )
            raise InputError(
                f"{self.path} is an unfinished build with {name.replace('_', ' ')} {found!r}, not {expected!r}: "
                "resume it with the same arguments, or delete it"
            )

    def _open_arrays(self) -> dict[str, BinaryIO]:
        """Open the arrays for appending, truncated to what is committed."""
        sizes = array_bytes(self._committed, self._regions, self.feature_size) | {"images.txt": self._id_bytes}
        files: dict[str, BinaryIO] = {}
        for name, size in sizes.items():
            file = self._open_files.enter_context((self.path / name).open("ab"))
            found = os.fstat(file.fileno()).st_size
            if found < size:
                raise InputError(
                    f"{self.path / name} has {found} bytes, expected at least {size} by the journal: "
                    "delete the folder and build it again"
                )
            file.truncate(size)
            files[name] = file
        fsync_dir(self.path)
        self._ids = dict.fromkeys(read_names(self.path / "images.txt"))
        if len(self._ids) != self._committed:
            raise InputError(
                f"{self.path / 'images.txt'} has {len(self._ids)} images, the journal {self._committed}: "
                "delete the folder and build it again"
            )
        return files


def _check_side(image_id: str, side: float | None) -> float:
    if side is None:
        return float("nan")
    if not 0 < side < float("inf"):
        raise InputError(f"image {image_id!r} has a side of {side}: expected pixels above 0, or None if unknown")
    return side
