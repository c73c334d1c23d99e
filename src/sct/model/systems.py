"""From a configuration to the captioner that it names.

The systems that ours is compared with are made in ``sct.baselines``, which enters them here when it is imported.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from sct.errors import InputError
from sct.model.assembly import assemble
from sct.model.config import OURS, CaptionerConfig
from sct.model.system import CaptioningSystem


class SystemKind(NamedTuple):
    """How a captioner of a name is configured and made."""

    config: type[CaptionerConfig]
    make: Callable[[Any], CaptioningSystem]
    """From a configuration of that type."""


_KINDS: dict[str, Callable[[], SystemKind]] = dict.fromkeys(OURS, lambda: SystemKind(CaptionerConfig, assemble))


def enter(variant: str, kind: Callable[[], SystemKind]) -> None:
    """Make a captioner known by its name; ``kind`` is asked when it is wanted, and may import it then."""
    _KINDS[variant] = kind


def system_kind(variant: str) -> SystemKind:
    """How captioners of this name are made."""
    if variant not in _KINDS:
        raise InputError(
            f"variant {variant!r} is not known: wanted one of {', '.join(_KINDS)}; those that ours is compared with "
            "are known once sct.baselines is imported"
        )
    return _KINDS[variant]()


def make_system(config: CaptionerConfig) -> CaptioningSystem:
    """A captioner with fresh weights."""
    kind = system_kind(config.variant)
    if type(config) is not kind.config:
        raise InputError(
            f"variant {config.variant!r} came with a {type(config).__name__}: wanted a {kind.config.__name__}"
        )
    return kind.make(config)
