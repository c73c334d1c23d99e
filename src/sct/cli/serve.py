"""``sct serve``: the web page and the HTTP API."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from sct import limits
from sct.cli.options import AllowDownloadOption
from sct.errors import InputError, missing_extra


def serve_command(
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for the network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8765,
    model: Annotated[Path, typer.Option(help="Bundle folder, or the word default.")] = Path("default"),
    token: Annotated[
        str | None,
        typer.Option(envvar="SCT_TOKEN", help="Bearer token; the variable is not visible in the process list."),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Serve the network without a token; needs --allow-host.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Name or address by which clients reach the server; repeatable. Others are refused."),
    ] = None,
    max_batch: Annotated[int, typer.Option(min=1, max=limits.MAX_HTTP_BATCH, help="Requests per batch.")] = 32,
    max_queue: Annotated[
        int, typer.Option(min=1, max=limits.MAX_HTTP_QUEUE, help="Requests in flight; further ones get a 429.")
    ] = 64,
    request_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds per request.")] = 30.0,
    max_image_mb: Annotated[
        int,
        typer.Option(min=1, max=limits.MAX_HTTP_IMAGE_BYTES >> 20, help="Maximum size of an image file, in megabytes."),
    ] = 10,
    max_megapixels: Annotated[
        float, typer.Option(min=0.01, max=limits.MAX_MEGAPIXELS, help="Maximum pixels, in millions.")
    ] = 40.0,
    cache_mb: Annotated[
        int,
        typer.Option(
            min=0, max=limits.MAX_HTTP_CACHE_BYTES >> 20, help="Size of the cache of encoded images, in megabytes."
        ),
    ] = 128,
    allow_download: AllowDownloadOption = False,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=limits.MAX_HTTP_WORKERS, help="Processes that share the port, the model and the image cache."
        ),
    ] = 1,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    precision: Annotated[
        Literal["float32", "float16", "int8"], typer.Option(help="Precision of the decoder: float16 GPU, int8 CPU.")
    ] = "float32",
) -> None:
    """Serve captions, detection and scores over HTTP, and a web page for them.

    Listens on this machine only, unless --host is given. Images stay in memory. Ctrl-C or SIGTERM stops the server
    after the requests in flight. With --workers, --threads are those of each; by default they share the cores.
    """
    if workers > 1 and sys.platform != "linux":
        raise InputError(f"got --workers {workers}, expected 1 on {sys.platform}: several processes need Linux")
    try:
        from sct.serving.server import StudioServer, allowed_hosts, is_loopback, listen  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("the server", "serve", error) from error
    from sct.serving.config import MEGABYTE, ServerConfig  # noqa: PLC0415

    is_private = is_loopback(host)
    if not is_private and token is None and not no_token:
        raise InputError(f"--host {host} serves the network: give --token or SCT_TOKEN, or --no-token to serve anybody")
    if not is_private and token is None and not allow_host:
        raise InputError(
            f"--host {host} --no-token would serve pages of other sites too (DNS rebinding): give --allow-host NAME "
            "for each name or address by which clients reach this machine"
        )
    config = ServerConfig(
        max_image_bytes=max_image_mb * MEGABYTE,
        max_megapixels=max_megapixels,
        request_timeout=request_timeout,
        max_queue=max_queue,
        max_queue_bytes=max(256, 4 * max_image_mb) * MEGABYTE,
        max_batch=max_batch,
        cache_bytes=cache_mb * MEGABYTE,
        token=token,
        hosts=allowed_hosts(host, allow_host or ()) if is_private or allow_host else None,
    )
    with listen(host, port) as listener:  # first, so that a port in use is reported at once
        from sct.captioner.captioner import Captioner, load  # noqa: PLC0415
        from sct.serving.app import make_app  # noqa: PLC0415

        def load_captioner() -> Captioner:
            return load(model, device=device, precision=precision, allow_download=allow_download)

        def print_url() -> None:
            url_host = f"[{host}]" if ":" in host else host
            fragment = "" if token is None else "#token=YOUR_TOKEN"
            print(f"sct: http://{url_host}:{listener.getsockname()[1]}/{fragment} (Ctrl-C stops)", flush=True)

        if workers == 1:
            app = make_app(load_captioner(), config)
            app.state.service.warm_up()
            print_url()
            StudioServer(app).run(sockets=[listener])
            return
        from sct.serving.processes import serve_in_processes  # noqa: PLC0415

        share_model = not device.startswith("cuda")
        code = serve_in_processes(
            workers, load_captioner, config, listener, share_model=share_model, on_ready=print_url
        )
        if code:
            raise typer.Exit(code)
