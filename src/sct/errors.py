"""The error type of all input checks, and the form of values in its messages."""

import re
import reprlib


class InputError(ValueError):
    """Invalid input. The message is one line: what was found, what was expected, what to do.

    The command line prints it without a traceback and exits with status 2.
    """


def missing_extra(what: str, extra: str, error: Exception | None = None, *, instead: str = "") -> InputError:
    """Error for a package that is not installed, with the command that installs the extra it belongs to.

    >>> missing_extra("SVM Rank", "train")
    InputError("SVM Rank needs the extra 'train': pip install 'show-control-and-tell[train]'")
    """
    reason = f" ({error})" if error else ""
    alternative = f", or {instead}" if instead else ""
    return InputError(
        f"{what} needs the extra {extra!r}{reason}: pip install 'show-control-and-tell[{extra}]'{alternative}"
    )


def format_value(value: object) -> str:
    """Format somebody's value for a message: its repr, cut where it is long.

    >>> format_value("dog"), format_value("dog" * 1000)
    ("'dog'", "'dogdogdogdogdogdo...dogdogdogdogdogdog'")
    >>> format_value(2**40), format_value(16**5000)  # Python does not print such a number
    ('1099511627776', 'an integer of 20,001 bits')
    """
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length():,} bits"
    return _REPR.repr(value)


def escape_controls(text: object) -> str:
    r"""Return names and captions of others as text that a terminal only shows, never obeys.

    Characters are written as in JSON, so that JSON remains valid.

    >>> escape_controls("a" + chr(27) + "[31m.jpg")
    'a\\u001b[31m.jpg'
    """
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text))


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 40
# Control characters, line and paragraph separators, changes of the writing direction, and lone surrogates.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
