"""What a server did so far, as text that Prometheus reads."""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_REQUESTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


@dataclass(slots=True)
class _Histogram:
    """How many values are at most as large as each bound; all values together."""

    bounds: Sequence[float]
    total: float = 0.0
    count: int = 0
    at_most: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.at_most = [0] * len(self.bounds)

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1
        for place, bound in enumerate(self.bounds):
            self.at_most[place] += value <= bound

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        comma = f"{labels}," if labels else ""
        for bound, count in zip(self.bounds, self.at_most, strict=True):
            yield f'{name}_bucket{{{comma}le="{bound:g}"}} {count}'
        yield f'{name}_bucket{{{comma}le="+Inf"}} {self.count}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self.total:.6g}"
        yield f"{name}_count{braces} {self.count}"


class Counters:
    """Counts, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, _Histogram] = {}
        self._batches = _Histogram(_REQUESTS)
        self._work_seconds = self._look_seconds = 0.0
        self._looks = self._cancelled = 0

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request was answered; ``route`` is one of a fixed number, so that strangers cannot add lines."""
        with self._lock:
            self._requests[route, status] += 1
            self._seconds.setdefault(route, _Histogram(_SECONDS)).add(seconds)

    def batch(self, requests: int, seconds: float) -> None:
        """Some requests were answered together."""
        with self._lock:
            self._batches.add(requests)
            self._work_seconds += seconds

    def looked(self, images: int, seconds: float) -> None:
        """New images were looked at."""
        with self._lock:
            self._looks += images
            self._look_seconds += seconds

    def cancelled(self) -> None:
        """A request was given up by who sent it, or for its time, before it was its turn."""
        with self._lock:
            self._cancelled += 1

    def seconds_per_request(self) -> float:
        """How long the model works for one, so far."""
        with self._lock:
            return self._work_seconds / self._batches.total if self._batches.total else 0.0

    def seconds_per_look(self) -> float:
        """How long a look at a new image takes, so far."""
        with self._lock:
            return self._look_seconds / self._looks if self._looks else 0.0

    def text(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> str:
        """All of it; ``gauges`` are asked now, each with what it tells."""
        with self._lock:
            lines = ["# HELP sct_requests_total Requests by route and status.", "# TYPE sct_requests_total counter"]
            lines += [
                f'sct_requests_total{{route="{route}",status="{status}"}} {count}'
                for (route, status), count in sorted(self._requests.items())
            ]
            lines += [
                "# HELP sct_request_seconds From the first byte to the answer.",
                "# TYPE sct_request_seconds histogram",
            ]
            for route, histogram in sorted(self._seconds.items()):
                lines += histogram.lines("sct_request_seconds", f'route="{route}"')
            lines += ["# HELP sct_batch_requests Requests answered together.", "# TYPE sct_batch_requests histogram"]
            lines += self._batches.lines("sct_batch_requests")
            for name, told, value in (
                ("sct_work_seconds_total", "How long the model worked.", self._work_seconds),
                ("sct_look_seconds_total", "Of that, for looks at new images.", self._look_seconds),
                ("sct_looks_total", "Images that were looked at.", self._looks),
                ("sct_cancelled_total", "Requests given up before it was their turn.", self._cancelled),
            ):
                lines += [f"# HELP {name} {told}", f"# TYPE {name} counter", f"{name} {value:.10g}"]
        for name, (told, ask) in gauges.items():
            lines += [f"# HELP {name} {told}", f"# TYPE {name} gauge", f"{name} {ask():.15g}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> float:
    """Memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
