"""What a user gave and what was wanted do not agree."""


class InputError(ValueError):
    """Bad input, said in one line: what came, what was wanted, what to do.

    The command line prints it without a traceback and exits with 2.
    """
