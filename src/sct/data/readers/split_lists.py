"""Lists of the images of each split: ``train.txt``, ``val.txt`` and ``test.txt``, as in Flickr30k Entities.

Its own splits have 29,783, 1,000 and 1,000 images. Karpathy's, which the paper uses, have 29,000, 1,014 and 1,000 of
them; 944 of his test images are in Flickr30k Entities' train.txt.
"""

import re
from pathlib import Path, PurePosixPath

from sct.data.readers.errors import ReadErrors
from sct.data.readers.karpathy import SplitImage
from sct.errors import format_value
from sct.storage.reading import read_lines

_IMAGE_ID = re.compile(r"[\w-]+")


def find_split_lists(folder: Path) -> dict[str, Path]:
    """Return the lists in a folder by split; there may be fewer than three."""
    paths = {split: folder / f"{split}.txt" for split in ("train", "val", "test")}
    return {split: path for split, path in paths.items() if path.exists()}


def read_split_lists(folder: Path, *, errors: ReadErrors) -> dict[str, SplitImage]:
    """Read the lists in a folder, each line the id or file name of an image; return images by id."""
    images: dict[str, SplitImage] = {}
    for split, path in find_split_lists(folder).items():
        for number, line in read_lines(path, "a list of images"):
            name = line.strip()
            if not name:
                continue
            image_id = PurePosixPath(name).stem
            if not _IMAGE_ID.fullmatch(image_id):
                errors.report(
                    f"{path}, line {number}", f"got {format_value(name)}, expected the id or file name of an image"
                )
            elif image_id in images:
                errors.report(
                    f"{path}, line {number}", f"image {image_id} is listed twice: expected each image in one split"
                )
            else:
                images[image_id] = SplitImage(image_id=image_id, split=split, file=f"{image_id}.jpg", captions=())
    return images
