"""Processors that this process may use."""

import os
import sys

import pytest

from sct.storage.cpus import count_cores, count_cpus


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, 4, id="no information"),
        pytest.param({f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": f"{n}" for n in range(4)}, 4),
        pytest.param(
            {f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": f"{n % 2},{n % 2 + 2}" for n in range(4)},
            2,
            id="hyper-threads",
        ),
        pytest.param({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 4, id="no quota"),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2, id="1.5 processors"
        ),
        pytest.param({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "900000 100000\n"}, 4, id="large quota"),
        pytest.param({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "strange\n"}, 4, id="unknown format"),
        pytest.param(
            {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "100000 100000\n"}, 1, id="quota of a parent"
        ),
        pytest.param(
            {
                "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            2,
            id="version 1",
        ),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="reads files of Linux")
def test_cores_and_processors(files, expected, tmp_path, monkeypatch, request):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert count_cores(tmp_path) == expected
    assert count_cpus(tmp_path) == (4 if "hyper-threads" in request.node.name else expected)
