"""Atomic writes and the lock."""

import errno

import pytest

from sct.errors import InputError
from sct.storage.atomic import atomic_write, lock


def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path):
    def fill(path):
        with atomic_write(path) as file:
            file.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"scores\.json") as error:
        fill(tmp_path / "scores.json")
    assert error.value.filename == str(tmp_path / "scores.json")
    assert not list(tmp_path.iterdir())


def test_a_locked_folder_is_refused(tmp_path):
    with (tmp_path / "lock").open("ab") as first, (tmp_path / "lock").open("ab") as second:
        lock(first, tmp_path)
        with pytest.raises(InputError, match="is being written by another process"):
            lock(second, tmp_path)
