"""A program in Java's place that speaks a tool's protocol, so that our side of it is tried without the tool."""

import sys


def put_fake_java(monkeypatch, home, script):
    """Make ``java`` a Python script, told first in ``sys.argv`` how Java would have been called."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!{sys.executable}\n{script}")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))


def put_jars(folder, names):
    """Files with the names of jars."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"")
    return folder
