"""The error type of all input checks, and the form of values in its messages."""

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


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 40
