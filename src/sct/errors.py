"""The error type of all input checks, and the form of values in its messages."""

import re
import reprlib


class InputError(ValueError):
    """Invalid input. The message is one line: what was found, what was expected, what to do.

    The command line prints it without a traceback and exits with status 2.
    """


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
