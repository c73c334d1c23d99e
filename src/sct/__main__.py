"""``python -m sct``: the command line, for launchers that want a module, such as torchrun."""

from sct.cli import main

if __name__ == "__main__":
    main()
