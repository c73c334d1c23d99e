"""Look up images by paths that strangers wrote, inside one folder."""

from dataclasses import dataclass
from pathlib import Path

from sct.bulk.location import Location, is_url
from sct.errors import InputError, format_value
from sct.limits import MAX_NAME_CHARACTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRoot:
    """The folder that relative paths of images start from; picklable."""

    folder: Location
    allow_absolute: bool = False
    """Whether absolute paths and URLs may be read, too: then a shard can name any file that this user can read."""

    def locate(self, path: str) -> Location:
        """Location of an image; paths that leave the folder are refused, also by a symbolic link.

        >>> ImageRoot(folder=Location.parse("/data")).locate("../etc/passwd")
        Traceback (most recent call last):
        ...
        sct.errors.InputError: got the path '../etc/passwd', expected one below the folder of the images
        """
        if len(path) > MAX_NAME_CHARACTERS or "\0" in path:
            raise InputError(f"got the path {format_value(path)}, expected the path of an image")
        if path.startswith(("/", "\\")) or is_url(path) or path[1:3] in (":\\", ":/"):
            if not self.allow_absolute:
                raise InputError(
                    f"got the path {format_value(path)}, expected a relative one: --allow-absolute-paths reads it"
                )
            return Location.parse(path)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if not parts or any(part == ".." or "\\" in part for part in parts):
            raise InputError(f"got the path {format_value(path)}, expected one below the folder of the images")
        found = self.folder.child("/".join(parts))
        if found.is_local and not self.allow_absolute:
            self._check_links(found, path)
        return found

    def _check_links(self, found: Location, path: str) -> None:
        try:
            is_inside = Path(found.path).resolve().is_relative_to(Path(self.folder.path).resolve())
        except (OSError, RuntimeError):  # a name that is too long, or a loop of links
            is_inside = False
        if not is_inside:
            raise InputError(f"got the path {format_value(path)}, expected one below the folder of the images")
