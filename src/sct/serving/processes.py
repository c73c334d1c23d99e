"""A server of several processes: the model is loaded once, then workers are forked."""

from collections.abc import Callable
from dataclasses import replace

import torch

from sct.captioner.captioner import Captioner
from sct.serving.app import make_app
from sct.serving.config import ServerConfig
from sct.serving.connections import Listener
from sct.serving.server import StudioServer
from sct.serving.supervisor import Supervisor
from sct.serving.worker import Worker


def serve_in_processes(
    num_workers: int,
    load_captioner: Callable[[], Captioner],
    config: ServerConfig,
    listener: Listener,
    *,
    share_model: bool,
    on_ready: Callable[[], None],
) -> int:
    """Serve until a signal; returns the exit code. ``on_ready`` is called once, when all workers accept connections.

    With ``share_model`` the model is loaded before workers are forked, so that they share its memory; a GPU cannot be
    used across a fork. ``config.cache_bytes`` is divided among the workers, and is the size of what they share besides.
    """
    num_threads = torch.get_num_threads()
    own_config = replace(config, cache_bytes=config.cache_bytes // num_workers)

    def run_worker(worker: Worker) -> int:
        torch.set_num_threads(num_threads)
        listener.share_with(worker.is_busier)
        app = make_app(shared_captioner or load_captioner(), own_config, worker=worker)
        app.state.service.warm_up()
        StudioServer(app, worker).run(sockets=[listener])
        return 0

    torch.set_num_threads(1)  # a pool of OpenMP threads would not survive the fork: its next user would hang
    try:
        shared_captioner = load_captioner() if share_model else None
        return Supervisor(
            listener, num_workers, run_worker, on_ready=on_ready, shared_image_bytes=config.cache_bytes
        ).run()
    finally:
        torch.set_num_threads(num_threads)
