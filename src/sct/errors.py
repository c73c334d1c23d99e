"""The error type of all input checks."""


class InputError(ValueError):
    """Invalid input. The message is one line: what was found, what was expected, what to do.

    The command line prints it without a traceback and exits with status 2.
    """
