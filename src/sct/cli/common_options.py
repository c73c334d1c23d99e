"""Options of every command: ``--threads``, ``--verbose`` and ``--quiet``."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any

from sct.cli.threads import ThreadsOption, configure_threads
from sct.cli.verbosity import QuietOption, VerboseOption, configure_verbosity

_OPTIONS = (
    Parameter("threads", Parameter.KEYWORD_ONLY, default=None, annotation=ThreadsOption),
    Parameter("verbose", Parameter.KEYWORD_ONLY, default=0, annotation=VerboseOption),
    Parameter("quiet", Parameter.KEYWORD_ONLY, default=False, annotation=QuietOption),
)


def with_common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command; they are applied before it runs, so before PyTorch is imported."""

    @wraps(command)
    def run(*arguments: Any, threads: int | None, verbose: int, quiet: bool, **options: Any) -> None:
        configure_verbosity(verbose, quiet=quiet)
        configure_threads(threads, options.get("workers") or 1)
        command(*arguments, **options)

    parameters = signature(command)
    run.__signature__ = parameters.replace(parameters=[*parameters.parameters.values(), *_OPTIONS])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, **{option.name: option.annotation for option in _OPTIONS}}
    return run
