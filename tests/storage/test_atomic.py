import errno
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from sct.errors import InputError
from sct.storage.atomic import atomic_write, lock_folder, make_folder, remove_empty_folders


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


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks")
def test_a_folder_that_another_process_locked_first_stays(tmp_path, monkeypatch):
    folder, mkdir = tmp_path / "a", Path.mkdir
    with ExitStack() as others:

        def mkdir_and_lose(path, **options):
            mkdir(path, **options)
            monkeypatch.undo()
            others.enter_context(lock_folder(folder))

        monkeypatch.setattr(Path, "mkdir", mkdir_and_lose)
        with pytest.raises(InputError, match="another process"), lock_folder(folder):
            pass
        assert folder.is_dir()


def test_made_folders_are_removed_while_they_are_empty(tmp_path):
    made = make_folder(tmp_path / "a" / "b")
    assert made == [tmp_path / "a" / "b", tmp_path / "a"]
    assert make_folder(tmp_path / "a" / "c") == [tmp_path / "a" / "c"]
    remove_empty_folders(made)
    assert list((tmp_path / "a").iterdir()) == [tmp_path / "a" / "c"]
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file: expected a folder to write to"):
        make_folder(tmp_path / "file")


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a device"])
def test_only_regular_files_are_replaced(tmp_path, kind):
    path = tmp_path / "out"
    make = {"pipe": os.mkfifo, "folder": os.mkdir, "link to a device": lambda p: p.symlink_to(os.devnull)}[kind]
    make(path)
    before = path.lstat()
    with pytest.raises(InputError, match="expected a file to write"), atomic_write(path) as file:
        file.write(b"x")
    assert path.lstat().st_ino == before.st_ino
