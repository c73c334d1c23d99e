"""``sct serve``: the studio in a browser, and the same over HTTP."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sct.errors import InputError


def serve_command(
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 opens it to the network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any that is free.")] = 8765,
    model: Annotated[Path, typer.Option(help="Folder of a bundle, or the word default.")] = Path("default"),
    token: Annotated[
        str | None, typer.Option(envvar="SCT_TOKEN", help="What requests must bear; others may see a command line.")
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let anybody on the network use it.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Cores that the model uses; all if not given.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Requests that are answered together, at most.")] = 32,
    waiting: Annotated[int, typer.Option(min=1, help="Requests at once; one more is told to come back (429).")] = 64,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long a request may take.")] = 30.0,
    upload: Annotated[int, typer.Option(min=1, help="Most megabytes of an image.")] = 10,
    megapixels: Annotated[float, typer.Option(min=0.01, max=150, help="Most pixels of an image, in millions.")] = 40.0,
    memory: Annotated[int, typer.Option(min=0, help="Megabytes for what was seen of recent images.")] = 128,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    precision: Annotated[
        Literal["float32", "float16", "int8"], typer.Option(help="Of the captioner: float16 for GPUs, int8 for CPUs.")
    ] = "float32",
) -> None:
    """Open the studio for a browser, and captions, detection and scores over HTTP for programs.

    Only this machine can reach it, unless --host says otherwise. Images stay in memory. Ctrl-C or SIGTERM stops it
    once what is in flight is answered.
    """
    try:
        from sct.serving.server import StudioServer, is_loopback, listen  # noqa: PLC0415
    except ImportError as error:
        raise InputError(
            f"the server cannot be imported ({error}): pip install 'show-control-and-tell[serve]'"
        ) from error
    from sct.serving.config import MEGABYTE, ServerSettings  # noqa: PLC0415

    is_private = is_loopback(host)
    if not is_private and token is None and not no_token:
        raise InputError(
            f"--host {host} opens the server to the network: give --token or SCT_TOKEN, or say --no-token to let "
            "anybody use it"
        )
    settings = ServerSettings(
        image_bytes=upload * MEGABYTE,
        megapixels=megapixels,
        seconds=seconds,
        waiting=waiting,
        waiting_bytes=max(256, 4 * upload) * MEGABYTE,
        batch=batch,
        memory_bytes=memory * MEGABYTE,
        token=token,
        hosts=frozenset(("localhost", "127.0.0.1", "::1", host)) if is_private else None,
    )
    with listen(host, port) as taken:  # before anything slow: a port that is in use is told at once
        import torch  # noqa: PLC0415

        from sct.captioner.captioner import load  # noqa: PLC0415
        from sct.serving.app import make_app  # noqa: PLC0415

        if threads is not None:
            torch.set_num_threads(threads)
        app = make_app(load(model, device=device, precision=precision), settings)
        app.state.desk.warm_up()
        server = StudioServer(app)
        shown = f"[{host}]" if ":" in host else host
        hint = "" if token is None else "#token=YOUR_TOKEN"
        print(f"sct: http://{shown}:{taken.getsockname()[1]}/{hint} (Ctrl-C stops)", flush=True)
        server.run(sockets=[taken])
