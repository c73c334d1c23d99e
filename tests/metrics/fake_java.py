"""Python script in place of Java that implements the protocol of a tool."""

import sys


def put_fake_java(monkeypatch, home, script):
    """Install a Python script as ``java``; it gets Java's arguments in ``sys.argv``."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!{sys.executable}\n{script}")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))


def put_jars(folder, names):
    """Create empty files with the names of jars."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"")
    return folder
