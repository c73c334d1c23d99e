"""Handling of unreadable inputs, counts of inputs that readers skip by rule, and clipped boxes."""

import logging
from dataclasses import dataclass, field, fields
from pathlib import Path

from sct.errors import InputError
from sct.regions import Box

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ReadErrors:
    """Raises on the first unreadable input, or collects all of them."""

    skip: bool = False
    """Whether to skip unreadable inputs instead of raising."""
    can_skip: bool = True
    """Whether the user could ask to skip them: errors then name the option."""
    messages: list[str] = field(default_factory=list)

    def report(self, location: str, reason: str) -> None:
        """Raise about the input at ``location`` ("train.jsonl, line 7"), or record it; a reason may begin with it.

        >>> errors = ReadErrors(skip=True)
        >>> errors.report("train.jsonl, line 7", "no captions")
        >>> errors.messages
        ['train.jsonl, line 7: no captions']
        """
        message = reason if reason.startswith(location) else f"{location}: {reason}"
        if not self.skip:
            raise InputError(f"{message} (--skip-bad skips such inputs)" if self.can_skip else message)
        self.messages.append(message)


@dataclass(slots=True)
class SkipCounts:
    """Counts of inputs that are valid but skipped by a reader's rules."""

    captions_with_too_few_runs: int = 0
    """Reference mode, COCO: captions with fewer runs of labels than chunk classes, where the alignment lost a chunk."""
    captions_without_annotation: int = 0
    """Captions of annotated images that are missing from the annotation file."""
    annotations_without_caption: int = 0
    """Annotated captions that are not among the image's captions."""
    images_without_annotation: int = 0
    """Images of the split file that are not annotated."""
    images_without_a_file: int = 0
    """COCO: images that are not among the given images."""
    images_outside_the_split: int = 0
    """Annotated images that are not in the split file, such as 769 of Flickr30k in Karpathy's."""
    captions_without_region: int = 0
    """Reference mode, Flickr30k: captions in which no word has a region."""
    chunks_not_found: int = 0
    """Paper mode, COCO: noun chunks whose words are not in their caption."""
    mentions_of_a_scene: int = 0
    """Flickr30k: phrases that describe the whole scene, which has no box."""
    mentions_without_box: int = 0
    """Flickr30k: phrases annotated as having no box."""
    boxes_of_crowds: int = 0
    """COCO: boxes of many objects at once."""
    boxes_without_area: int = 0
    """COCO: boxes of no width or height."""
    boxes_without_detection: int = 0
    """Flickr30k: human boxes that no detection overlaps sufficiently."""

    def counts(self) -> dict[str, int]:
        """Return the nonzero counts.

        >>> SkipCounts(chunks_not_found=3).counts()
        {'chunks_not_found': 3}
        """
        counts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: count for name, count in counts.items() if count}


@dataclass(slots=True)
class ClippedBoxes:
    """Clips boxes that leave their image by a few pixels, and warns once per source."""

    count: int = 0

    def clip(self, box: Box, width: float, height: float) -> Box:
        """Clip a box to its image, see ``Box.clip``."""
        clipped = box.clip(width, height)
        self.count += clipped is not box
        return clipped

    def warn(self, path: Path) -> None:
        """Log how many boxes of a file were clipped, if any, and start over."""
        if self.count:
            logger.warning("%s: boxes that left their image by a few pixels and were clipped: %d", path, self.count)
        self.count = 0
