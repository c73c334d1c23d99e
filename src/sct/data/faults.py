"""What to do with a line or a file that cannot be read: stop, or skip it and keep count."""

from dataclasses import dataclass, field

from sct.errors import InputError


@dataclass(slots=True)
class Faults:
    """Collects unreadable inputs; refuses the first one unless told to skip them."""

    skip: bool = False
    messages: list[str] = field(default_factory=list)

    def report(self, place: str, reason: str) -> None:
        """Stop at, or note, the input at ``place`` ("train.jsonl, line 7").

        >>> faults = Faults(skip=True)
        >>> faults.report("train.jsonl, line 7", "no captions")
        >>> faults.messages
        ['train.jsonl, line 7: no captions']
        """
        message = f"{place}: {reason}"
        if not self.skip:
            raise InputError(f"{message} (--skip-bad leaves such inputs out)")
        self.messages.append(message)
