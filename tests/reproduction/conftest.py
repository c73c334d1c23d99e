"""Fixtures: a dataset and two rows of a table, trained once per session."""

import shutil

import pytest

from sct.reproduction.evaluate_rows import reproduce
from tests.factories import make_noun_dataset
from tests.reproduction.helpers import TABLE, make_config


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return make_noun_dataset(tmp_path_factory.mktemp("reproduction") / "tiny")


@pytest.fixture(scope="session")
def trained(tmp_path_factory, data):
    """Folder, result and log lines of both rows, trained and evaluated by two jobs."""
    folder, lines = tmp_path_factory.mktemp("trained"), []
    result = reproduce(TABLE, make_config(folder, data, jobs=2), lines.append)
    assert result.failures() == {}
    return folder, result, lines


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of the run directories, to modify."""
    shutil.copytree(trained[0] / "runs", tmp_path / "runs", symlinks=True)
    return tmp_path
