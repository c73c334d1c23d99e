import errno
import os

import pytest

from sct.errors import InputError
from sct.storage.atomic import atomic_write, lock_folder


def test_a_file_is_replaced_at_the_end(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path, code, monkeypatch):
    def fail(_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=rf"{os.strerror(code)}: '.*a\.txt'"), atomic_write(tmp_path / "a.txt") as file:
        file.write(b"new")
    assert list(tmp_path.iterdir()) == []


def test_other_errors_are_kept(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none.*a\.txt\.part"), atomic_write(tmp_path / "none" / "a.txt"):
        pass


def test_a_locked_folder_is_removed_again_if_nothing_was_written(tmp_path):
    def fail(folder):
        with lock_folder(folder):
            raise InputError("no")

    with pytest.raises(InputError, match="no"):
        fail(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())
    with lock_folder(tmp_path / "a"), pytest.raises(InputError, match="another process"), lock_folder(tmp_path / "a"):
        pass
    assert (tmp_path / "a").is_dir(), "the folder of another process stays"
