"""Processors that this process may use: those it is bound to, at most the CPU quota of its container."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ROOT = Path("/")


def count_cpus(root: Path = _ROOT) -> int:
    """Processors that this process may use; ``root`` has the kernel's ``sys`` and ``proc``."""
    return min([count_affinity(), *_cgroup_quotas(root)])


def count_cores(root: Path = _ROOT) -> int:
    """The same with hyper-threads of one core counted once."""
    if sys.platform != "linux":
        return count_affinity()
    siblings = {
        _read(root / f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list") or str(processor)
        for processor in os.sched_getaffinity(0)
    }
    return min([len(siblings), *_cgroup_quotas(root)])


def count_affinity() -> int:
    """Processors that this process is bound to; all on systems other than Linux."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _cgroup_quotas(root: Path) -> Iterator[int]:
    """CPU quotas of the control groups of this process, rounded up; containers have them."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, name = line.split(":", 2)
        group = PurePosixPath(name.lstrip("/"))
        for folder in (group, *group.parents):
            if not controllers:
                values = _read(root / "sys/fs/cgroup" / folder / "cpu.max").split()
            elif "cpu" in controllers.split(","):
                old = root / "sys/fs/cgroup/cpu" / folder
                values = [_read(old / f"cpu.cfs_{kind}_us") for kind in ("quota", "period")]
            else:
                continue
            if len(values) == 2 and all(value.isdigit() for value in values) and int(values[1]):  # else: no quota
                yield max(1, -(-int(values[0]) // int(values[1])))


def _read(path: Path) -> str:
    """Content of a file of the kernel; "" if there is none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
