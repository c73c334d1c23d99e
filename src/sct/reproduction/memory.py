"""Work that shares a GPU with other work may find no memory there, and has to wait."""


def tells_of_no_memory(text: str) -> bool:
    """Whether the last words of a process, or of an error, are that its GPU has no memory left.

    PyTorch has an error of its own for this only where it was PyTorch that asked.

    >>> tells_of_no_memory("CUDA error: out of memory")
    True
    """
    return "out of memory" in text.lower()
