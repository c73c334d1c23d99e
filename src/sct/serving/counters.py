"""Request and inference counters in the Prometheus text format."""

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LATENCY_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_BATCH_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(slots=True)
class _Histogram:
    """A Prometheus histogram: cumulative bucket counts, sum and count."""

    bounds: Sequence[float]
    total: float = 0.0
    count: int = 0
    bucket_counts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.bucket_counts = [0] * len(self.bounds)

    def observe(self, value: float) -> None:
        self.total += value
        self.count += 1
        for index, bound in enumerate(self.bounds):
            self.bucket_counts[index] += value <= bound

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        comma = f"{labels}," if labels else ""
        for bound, count in zip(self.bounds, self.bucket_counts, strict=True):
            yield f'{name}_bucket{{{comma}le="{bound:g}"}} {count}'
        yield f'{name}_bucket{{{comma}le="+Inf"}} {self.count}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self.total:.6g}"
        yield f"{name}_count{braces} {self.count}"


class Counters:
    """Thread-safe counters of one server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._latency: dict[str, _Histogram] = {}
        self._batch_size = _Histogram(_BATCH_BUCKETS)
        self._inference_seconds = self._encode_seconds = 0.0
        self._images_encoded = self._cancelled = self._model_restarts = 0
        self._closed_connections: Counter[str] = Counter()

    def add_request(self, route: str, status: int, seconds: float) -> None:
        """Count a response; ``route`` is one of a fixed set, so that clients cannot add time series."""
        with self._lock:
            self._requests[route, status] += 1
            self._latency.setdefault(route, _Histogram(_LATENCY_BUCKETS)).observe(seconds)

    def add_batch(self, size: int, seconds: float) -> None:
        """Count a batch of requests."""
        with self._lock:
            self._batch_size.observe(size)
            self._inference_seconds += seconds

    def add_encoded(self, images: int, seconds: float) -> None:
        """Count encoded images."""
        with self._lock:
            self._images_encoded += images
            self._encode_seconds += seconds

    def add_cancelled(self) -> None:
        """Count a request that was cancelled or timed out in the queue."""
        with self._lock:
            self._cancelled += 1

    def add_model_restart(self) -> None:
        """Count a restart of the model thread."""
        with self._lock:
            self._model_restarts += 1

    def add_closed_connection(self, reason: str) -> None:
        """Count a connection that the server closed; ``reason`` is one of a fixed set."""
        with self._lock:
            self._closed_connections[reason] += 1

    def seconds_per_request(self) -> float:
        """Return the mean inference time per request."""
        with self._lock:
            return self._inference_seconds / self._batch_size.total if self._batch_size.total else 0.0

    def seconds_per_image(self) -> float:
        """Return the mean time to encode an image."""
        with self._lock:
            return self._encode_seconds / self._images_encoded if self._images_encoded else 0.0

    def text(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> str:
        """Return all counters; ``gauges`` maps a name to its help text and a function of its current value."""
        with self._lock:
            lines = ["# HELP sct_requests_total Requests by route and status.", "# TYPE sct_requests_total counter"]
            lines += [
                f'sct_requests_total{{route="{route}",status="{status}"}} {count}'
                for (route, status), count in sorted(self._requests.items())
            ]
            lines += ["# HELP sct_request_seconds Request latency.", "# TYPE sct_request_seconds histogram"]
            for route, histogram in sorted(self._latency.items()):
                lines += histogram.lines("sct_request_seconds", f'route="{route}"')
            lines += ["# HELP sct_batch_size Requests per batch.", "# TYPE sct_batch_size histogram"]
            lines += self._batch_size.lines("sct_batch_size")
            for name, help_text, value in (
                ("sct_inference_seconds_total", "Time of batched inference.", self._inference_seconds),
                ("sct_encode_seconds_total", "Part of it that encoded images.", self._encode_seconds),
                ("sct_images_encoded_total", "Images encoded.", self._images_encoded),
                ("sct_requests_cancelled_total", "Requests cancelled or timed out in the queue.", self._cancelled),
                ("sct_model_restarts_total", "Restarts of the model thread.", self._model_restarts),
            ):
                lines += [f"# HELP {name} {help_text}", f"# TYPE {name} counter", f"{name} {value:.10g}"]
            name = "sct_connections_closed_total"
            lines += [f"# HELP {name} Connections that the server closed, by reason.", f"# TYPE {name} counter"]
            lines += [
                f'{name}{{reason="{reason}"}} {count}' for reason, count in sorted(self._closed_connections.items())
            ]
        for name, (help_text, read) in gauges.items():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", f"{name} {read():.15g}"]
        return "\n".join(lines) + "\n"


def merge_metrics(texts: Mapping[int, str]) -> str:
    r"""Merge the metrics of worker processes; a label tells them apart.

    >>> text = "# HELP a Help.\n# TYPE a counter\na{b=\"c\"} 1\n# HELP d Help.\n# TYPE d gauge\nd 2\n"
    >>> print(merge_metrics({0: text, 1: text}), end="")
    # HELP a Help.
    # TYPE a counter
    a{worker="0",b="c"} 1
    a{worker="1",b="c"} 1
    # HELP d Help.
    # TYPE d gauge
    d{worker="0"} 2
    d{worker="1"} 2
    """
    families: dict[str, list[str]] = {}
    for worker, text in texts.items():
        for family in re.split(r"^(?=# HELP )", text, flags=re.MULTILINE)[1:]:
            help_line, type_line, *samples = family.splitlines()
            lines = families.setdefault(help_line, [help_line, type_line])
            for sample in samples:
                name, brace, rest = sample.partition("{")
                if brace:
                    lines.append(f'{name}{{worker="{worker}",{rest}')
                else:
                    name, _, value = sample.partition(" ")
                    lines.append(f'{name}{{worker="{worker}"}} {value}')
    return "".join(f"{line}\n" for lines in families.values() for line in lines)


def resident_bytes() -> float:
    """Return the resident memory of this process; 0 where /proc does not exist."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
