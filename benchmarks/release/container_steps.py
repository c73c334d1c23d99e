r"""Build and try an image of ``deploy/`` without a container engine: its steps run in a Debian tree, by chroot.

    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm build/debian
    python benchmarks/release/container_steps.py deploy/Dockerfile build/debian build/image --build-arg TORCH_INDEX=URL

Every stage is a copy of the tree; then the entry point serves on a free port as the image's user, on a read-only root.
The health check must pass, a photograph is captioned, and SIGTERM must end the server with exit code 0. ``--bind PATH``
shows a file or folder of this machine to the steps and ``--env NAME`` a variable, such as the settings of a package
index. Needs root; the tree must be what ``BASE_IMAGE`` would be.
"""

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PHOTO = ROOT / "examples" / "tiny" / "images" / "cat.jpg"
TOKEN = "container"
START_SECONDS = 120
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line of a Dockerfile, with its continuation lines."""

    name: str
    value: str


def parse_dockerfile(text: str) -> list[Instruction]:
    r"""Return the instructions of a Dockerfile.

    >>> parse_dockerfile("# comment\nFROM a\nRUN b \\\n  # comment\n  && c")
    [Instruction(name='FROM', value='a'), Instruction(name='RUN', value='b && c')]
    """
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\s*\\\n\s*", " ", lines)
    parts = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [Instruction(name.upper(), value.strip()) for name, value in parts]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``${NAME}`` and ``$NAME`` as Docker does outside RUN.

    >>> expand("/opt/bin:${PATH}", {"PATH": "/bin"})
    '/opt/bin:/bin'
    """
    return re.sub(r"\$\{?(\w+)\}?", lambda match: variables.get(match[1], ""), text)


@dataclass(eq=False)
class Stage:
    """One stage: a tree and the settings that its instructions made."""

    root: Path
    binds: Sequence[Path]
    env: dict[str, str]
    args: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "0"
    exec_forms: dict[str, list[str]] = field(default_factory=dict)
    """Commands of ENTRYPOINT, CMD and HEALTHCHECK."""

    def command(self, arguments: Sequence[str], *, read_only: bool = False) -> list[str]:
        """Return a command line that runs a command in the tree; its mounts end with it."""
        mounts = [f"mount --bind {shlex.quote(str(self.root))} {shlex.quote(str(self.root))}"]
        if read_only:
            mounts.append(f"mount -o remount,bind,ro {shlex.quote(str(self.root))}")
        for path in (Path("/proc"), Path("/dev"), *self.binds):
            target = self.root / path.relative_to("/")
            if not target.exists():
                make_mount_point(path, target)
            mounts.append(f"mount --rbind {shlex.quote(str(path))} {shlex.quote(str(target))}")
        inner = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(arguments)}"
        variables = shlex.join(f"{name}={value}" for name, value in {**self.env, **self.args}.items())
        chroot = f"chroot --userspec={self.user}:{self.user} {shlex.quote(str(self.root))}"
        script = " && ".join([*mounts, f"exec env -i {variables} {chroot} /bin/sh -c {shlex.quote(inner)}"])
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]

    def copy(self, value: str, stages: Mapping[str, "Stage"]) -> None:
        """COPY of files of the repository, or of another stage."""
        *names, target = expand(value, self.args).split()
        source = ROOT
        if names[0].startswith("--from="):
            source = stages[names.pop(0).removeprefix("--from=")].root
        destination = self.root / (Path(self.workdir) / target).relative_to("/")
        destination.mkdir(parents=True, exist_ok=True)
        for name in names:
            path = source / name.lstrip("/")
            into = destination if path.is_dir() else destination / path.name
            subprocess.run(["cp", "-a", f"{path}/." if path.is_dir() else str(path), str(into)], check=True)


def make_mount_point(path: Path, target: Path) -> None:
    """Make an empty folder or file."""
    if path.is_dir():
        target.mkdir(parents=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def build(
    dockerfile: Path,
    debian: Path,
    out: Path,
    build_args: Mapping[str, str],
    env: Mapping[str, str],
    binds: Sequence[Path],
) -> Stage:
    """Run all instructions and return the last stage."""
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for instruction in parse_dockerfile(dockerfile.read_text(encoding="utf-8")):
        name, value = instruction.name, instruction.value
        print(f"{name} {value[:100]}", flush=True)
        if name == "FROM":
            root = out / str(len(stages))
            subprocess.run(["cp", "-a", str(debian), str(root)], check=True)
            stage = Stage(root, binds, dict(env))
            stages[value.partition(" AS ")[2] or str(len(stages))] = stage
        elif stage is None:
            assert name == "ARG"  # BASE_IMAGE, which the tree stands for
        elif name == "ARG":
            key, _, default = value.partition("=")
            stage.args[key] = build_args.get(key, default)
        elif name == "ENV":
            stage.env |= dict(pair.split("=", 1) for pair in shlex.split(expand(value, stage.env)))
        elif name == "WORKDIR":
            stage.workdir = value
            (stage.root / value.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            stage.copy(value, stages)
        elif name == "RUN":
            subprocess.run(stage.command(["/bin/sh", "-c", value]), check=True)
        elif name == "USER":
            stage.user = value
        elif name in ("ENTRYPOINT", "CMD", "HEALTHCHECK"):
            stage.exec_forms[name] = json.loads(value[value.index("[") :])
        else:
            assert name == "EXPOSE", name
    assert stage is not None
    return stage


def try_image(stage: Stage) -> None:
    """Serve as the image does, on a free port, caption a photograph and stop."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    stage.env["SCT_TOKEN"] = TOKEN
    serve = [*stage.exec_forms["ENTRYPOINT"], *stage.exec_forms["CMD"], "--port", str(port)]
    health = [part.replace("8765", str(port)) for part in stage.exec_forms["HEALTHCHECK"]]
    with subprocess.Popen(stage.command(serve, read_only=True)) as process:
        try:
            end = time.monotonic() + START_SECONDS
            while subprocess.run(stage.command(health), stderr=subprocess.DEVNULL, check=False).returncode:
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit("the health check does not pass")
                time.sleep(1)
            caption = caption_photo(port)
            process.send_signal(signal.SIGTERM)
            code = process.wait(90)
        finally:
            process.kill()
    print(f"caption: {caption}; exit code after SIGTERM: {code}")
    if code:
        raise SystemExit("the server did not stop gracefully")


def caption_photo(port: int) -> str:
    """Caption a photograph by HTTP."""
    from sct.serving.client import Client  # noqa: PLC0415

    return Client(f"http://127.0.0.1:{port}", token=TOKEN).caption(PHOTO)[0].text


def main() -> None:
    """Build and try an image."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dockerfile", type=Path)
    parser.add_argument("debian", type=Path, help="tree that stands for BASE_IMAGE")
    parser.add_argument("out", type=Path, help="new folder for the stages")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--bind", action="append", type=Path, default=[], metavar="PATH")
    parser.add_argument("--env", action="append", default=[], metavar="NAME")
    options = parser.parse_args()
    options.out.mkdir(parents=True)
    env = {"PATH": _PATH, **{name: os.environ[name] for name in options.env}}
    build_args = dict(pair.split("=", 1) for pair in options.build_arg)
    try_image(build(options.dockerfile, options.debian, options.out.resolve(), build_args, env, options.bind))


if __name__ == "__main__":
    main()
