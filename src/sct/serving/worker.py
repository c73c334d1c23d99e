"""One of several worker processes of a server, as seen by itself."""

import socket
from dataclasses import dataclass

from sct.serving.shared_memory import SharedStore, WorkerBoard


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """What a worker process knows of the others."""

    index: int
    board: WorkerBoard
    images: SharedStore | None
    """Encoded images of all workers; None without a cache."""
    supervisor: socket.socket
    """A byte tells the supervisor to look at the board."""

    def notify_ready(self) -> None:
        """Tell the others that this worker accepts connections."""
        self.set_connections(0)
        self.supervisor.send(b"\0")

    def set_connections(self, num_open: int) -> None:
        """Tell the others how many connections are open."""
        self.board.set_connections(self.index, num_open)

    def is_busier(self) -> bool:
        """Whether another worker has fewer open connections."""
        return self.board.has_fewer_connections(self.index)
