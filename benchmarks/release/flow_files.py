"""Count the source files of sct that a command loads, and those of which it runs at least one function.

    python benchmarks/release/flow_files.py caption examples/photos/hikers.jpg --region 65,297,92,345
    python benchmarks/release/flow_files.py serve --port 8799 --no-token    # traces one POST /v1/caption
    python benchmarks/release/flow_files.py --list prepare examples/tiny build/tiny --workers 1

``--list`` prints their names, too. Only this process is traced.
"""

import inspect
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import FrameType
from typing import Any

PHOTOS = Path("examples/photos")


class Tracer:
    """Collects the files whose functions are called, in all threads."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.enabled = True

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Record a call; the bodies of modules and classes have no fast locals and do not count."""
        if event == "call" and self.enabled and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            self.files.add(frame.f_code.co_filename)


def request_captions(port: int, tracer: Tracer) -> None:
    """Request captions of two images, the first one untraced, and stop the server."""
    for enabled, photo in ((False, "otters.jpg"), (True, "hikers.jpg")):
        head = b'--cut\r\nContent-Disposition: form-data; name="image"; filename="photo.jpg"\r\n\r\n'
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/caption",
            head + (PHOTOS / photo).read_bytes() + b"\r\n--cut--\r\n",
            {"Content-Type": "multipart/form-data; boundary=cut"},
        )
        tracer.enabled = enabled
        for _ in range(300):  # until the server listens
            try:
                with urllib.request.urlopen(request) as response:
                    json.load(response)
                break
            except urllib.error.HTTPError:
                raise
            except urllib.error.URLError:
                time.sleep(0.2)
        tracer.enabled = False
    os.kill(os.getpid(), signal.SIGINT)


def main(arguments: list[str]) -> None:
    """Run a command under the tracer and print the counts."""
    list_files = "--list" in arguments
    arguments = [word for word in arguments if word != "--list"]
    tracer = Tracer()
    if arguments[0] == "serve":
        tracer.enabled = False
        port = int(arguments[arguments.index("--port") + 1])
        threading.Thread(target=request_captions, args=(port, tracer), daemon=True).start()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        from sct.cli.main import run  # noqa: PLC0415  after the tracer is set

        run(arguments)
    except (SystemExit, KeyboardInterrupt):
        pass
    finally:
        sys.setprofile(None)
    import sct  # noqa: PLC0415

    root = str(Path(sct.__file__).parent) + os.sep
    loaded = {
        str(module.__file__)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "sct" and getattr(module, "__file__", None)
    }
    run_files = sorted(file for file in tracer.files if file.startswith(root))
    lines = sum(Path(file).read_text(encoding="utf-8").count("\n") for file in loaded)
    print(f"{arguments[0]}: ran functions of {len(run_files)} files, loaded {len(loaded)} ({lines:,} lines)")
    if list_files:
        print(*(file.removeprefix(root) for file in run_files), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
