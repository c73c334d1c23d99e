"""Entry point of ``sct`` and ``python -m sct``."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C is one line on stderr, also while modules are still being imported."""
    try:
        from sct.cli import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        print("sct: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
