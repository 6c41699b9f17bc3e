"""The peers: installed by name, in pinned versions, into a virtualenv and a node_modules of their own."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.system import PEER_NODE, PEER_PYTHON, Runtime, node_program

VERSIONS = {
    "graphile-worker": "0.18.0",
    "pgqueuer": "1.6.0",
    "procrastinate": "3.10.0",
    "awa-pg": "0.6.9",
}
NODE_PACKAGES = ["graphile-worker"]
PYTHON_PACKAGES = ["pgqueuer", "procrastinate", "awa-pg"]
# What the peers run on: the drivers and the event loop that make them fastest.
PYTHON_DRIVERS = ["asyncpg==0.32.0", "psycopg[binary,pool]==3.3.8", "uvloop==0.23.0"]


def install(runtimes: Iterable[Runtime]) -> None:
    """Install the peers of these runtimes that are not there in their pinned version."""
    for runtime in set(runtimes):
        if runtime != "own" and _mark(runtime).read_text("utf-8") != _wanted(runtime):
            print(f"installing {_wanted(runtime)}", file=sys.stderr)
            (_install_node if runtime == "node" else _install_python)()
            _mark(runtime).write_text(_wanted(runtime))


def _install_python() -> None:
    home = PEER_PYTHON.parent.parent
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    pip = [str(PEER_PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, *_wanted("python").split()], check=True)


def _install_node() -> None:
    node = Path(node_program())
    # The wheel's own `npm` is a copy of a link and does not find its library.
    bundled = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm = [str(node), str(bundled)] if node.is_absolute() else ["npm"]
    quiet = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([*npm, "install", *quiet, *_wanted("node").split()], cwd=PEER_NODE, check=True)


def _wanted(runtime: Runtime) -> str:
    if runtime == "node":
        return " ".join(f"{name}@{VERSIONS[name]}" for name in NODE_PACKAGES)
    return " ".join([*(f"{name}=={VERSIONS[name]}" for name in PYTHON_PACKAGES), *PYTHON_DRIVERS])


def _mark(runtime: Runtime) -> Path:
    """The file that says what is installed; made empty where nothing is."""
    home = PEER_NODE if runtime == "node" else PEER_PYTHON.parent.parent
    home.mkdir(parents=True, exist_ok=True)
    mark = home / ".installed"
    mark.touch()
    return mark
