"""Metrics of the server: those of this process or of all workers."""

import asyncio

from sct.serving.counters import merge_metrics, resident_bytes
from sct.serving.service import InferenceService
from sct.serving.worker import Worker

_PUBLICATION_INTERVAL = 1.0


class MetricsReport:
    """Reads the counters and gauges of this process; workers publish theirs to each other."""

    def __init__(self, service: InferenceService, worker: Worker | None) -> None:
        """``worker`` is None for a server of one process."""
        self._service, self._worker = service, worker
        self._gauges = {
            "sct_requests_in_flight": ("Requests without a response.", lambda: service.in_flight),
            "sct_queue_length": ("Requests that wait for the model.", lambda: service.queue_length),
            "sct_image_cache_images": ("Encoded images in the cache.", lambda: len(service.cache)),
            "sct_image_cache_bytes": ("Size of the image cache.", lambda: service.cache.num_bytes),
            "process_resident_memory_bytes": ("Resident memory of the server.", resident_bytes),
        }

    def text(self) -> str:
        """Return all metrics; with several workers, each has a label for its worker."""
        if self._worker is None:
            return self._service.counters.text(self._gauges)
        self._publish(self._worker)
        return merge_metrics(self._worker.board.read_metrics())

    def count_workers(self) -> dict[str, int]:
        """Return the number of workers that there should be, and of those that accept connections."""
        if self._worker is None:
            return {"total": 1, "ready": 1}
        return {"total": self._worker.board.num_workers, "ready": self._worker.board.num_ready}

    async def publish_regularly(self) -> None:
        """Publish the metrics of this worker until cancelled."""
        while self._worker is not None:
            self._publish(self._worker)
            await asyncio.sleep(_PUBLICATION_INTERVAL)

    def _publish(self, worker: Worker) -> None:
        worker.board.publish_metrics(worker.index, self._service.counters.text(self._gauges))
