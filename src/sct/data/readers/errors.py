"""What to do with a line or a file that cannot be read: stop, or skip it and keep count.

What a reader left out by rule, counted: not faults of the input, but nothing to pass over in silence.
"""

from dataclasses import dataclass, field, fields

from sct.errors import InputError


@dataclass(slots=True)
class ReadErrors:
    """Collects unreadable inputs; refuses the first one unless told to skip them."""

    skip: bool = False
    messages: list[str] = field(default_factory=list)

    def report(self, place: str, reason: str) -> None:
        """Stop at, or note, the input at ``place`` ("train.jsonl, line 7").

        >>> faults = ReadErrors(skip=True)
        >>> faults.report("train.jsonl, line 7", "no captions")
        >>> faults.messages
        ['train.jsonl, line 7: no captions']
        """
        message = f"{place}: {reason}"
        if not self.skip:
            raise InputError(f"{message} (--skip-bad leaves such inputs out)")
        self.messages.append(message)


@dataclass(slots=True)
class SkipCounts:
    """Counts of what the rules of a source left out."""

    captions_with_too_few_runs: int = 0
    """Reference mode, COCO: fewer runs of classes than distinct chunk classes, so the alignment lost a chunk."""
    captions_without_annotation: int = 0
    """A caption of an annotated image that the annotation file does not have."""
    annotations_without_caption: int = 0
    """A caption of the annotation file that is not among the image's captions."""
    images_without_annotation: int = 0
    """An image of the split file that the annotations do not have."""
    images_outside_the_split: int = 0
    """An image of the annotations that the split file leaves out, as Karpathy's does 769 of Flickr30k."""
    captions_without_region: int = 0
    """Reference mode, Flickr30k: no word has a region."""
    chunks_not_found: int = 0
    """Paper mode, COCO: a noun chunk whose words are not in its caption."""
    mentions_of_a_scene: int = 0
    """Flickr30k: the phrase names the whole scene, so nobody drew a box."""
    mentions_without_box: int = 0
    """Flickr30k: the phrase names something that has no box."""
    boxes_without_detection: int = 0
    """Flickr30k: a human box that no detection overlaps, or not enough."""

    def counts(self) -> dict[str, int]:
        """The counts that are not zero.

        >>> SkipCounts(chunks_not_found=3).counts()
        {'chunks_not_found': 3}
        """
        counts = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: count for name, count in counts.items() if count}
