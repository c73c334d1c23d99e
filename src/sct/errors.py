"""What a user gave and what was expected do not agree."""


class InputError(ValueError):
    """Bad input, said in one line: what came, what was expected, what to do.

    The command line prints it without a traceback and exits with 2.
    """
