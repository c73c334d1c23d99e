"""Two rows, trained once for all tests of tables."""

import shutil

import pytest

from sct.reproduction.table import reproduce
from tests.reproduction.tiny_data import tiny_dataset
from tests.reproduction.tiny_rows import TABLE, request_in


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return tiny_dataset(tmp_path_factory.mktemp("reproduction") / "tiny")


@pytest.fixture(scope="session")
def trained(tmp_path_factory, data):
    """Both rows, trained at the same time."""
    folder, said = tmp_path_factory.mktemp("trained"), []
    made = reproduce(TABLE, request_in(folder, data, jobs=2), said.append)
    assert made.failures() == {}
    return folder, made, said


@pytest.fixture
def copy(trained, tmp_path):
    """The runs, for a test to spoil."""
    shutil.copytree(trained[0] / "runs", tmp_path / "runs", symlinks=True)
    return tmp_path
