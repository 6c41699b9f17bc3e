"""Build the sdist and the wheel, install each in a fresh environment and use it: `make packages`.

Versions are those of requirements/dev.lock, so that the result does not depend on the day. The wheel is installed step by step, as
error messages say (base, `server`, `embedded`); the sdist with all extras at once, and built by pip in isolation.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.metadata import Metadata

from rota import __version__
from rota.errors import DISTRIBUTION

ROOT = Path(__file__).parents[1]
USE = Path(__file__).parent / "support" / "use_installed.py"
EXTRAS = ("server", "embedded", "feeds", "calendars", "secrets")


def main() -> int:
    """Build, check, install and use both; raise for what fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copy both here when they are good")
    keep: Path | None = parser.parse_args().keep
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rota-packages-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the embedded server runs as an unprivileged user
        sdist, wheel = build(folder / "dist")
        check_contents(sdist, wheel)
        check_metadata(wheel)
        limits = folder / "constraints.txt"
        limits.write_text(constraints((ROOT / "requirements" / "dev.lock").read_text("utf-8")))
        with ThreadPoolExecutor() as both:
            for done in [both.submit(try_wheel, folder, wheel, limits), both.submit(try_sdist, folder, sdist, limits)]:
                done.result()
        if keep is not None:
            keep.mkdir(exist_ok=True)
            for each in (sdist, wheel):
                shutil.copy(each, keep)
    print(f"packages: {sdist.name} and {wheel.name} install and run ({time.monotonic() - began:.0f} s)")
    return 0


def build(target: Path) -> tuple[Path, Path]:
    """Build the sdist from the checkout and the wheel from the sdist."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", target, ROOT)
    (sdist,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    """Compare what the two contain with what the package consists of."""
    with zipfile.ZipFile(wheel) as files:
        installed = {name.removeprefix("rota/") for name in files.namelist() if name.startswith("rota/")}
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    sources = {name.removeprefix("src/rota/") for name in names if name.startswith("src/rota/")}
    assert installed == sources, f"only in one of the two: {sorted(installed ^ sources)}"
    assert "server/dashboard/index.html" in installed
    tops = {name.partition("/")[0] for name in names}
    assert not tops & {"dashboard", "docs", "tests", "bench", "deploy"}, f"the sdist has {sorted(tops)}"


def check_metadata(wheel: Path) -> None:
    """Validate the wheel's metadata by the specification of the packaging authority."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Metadata.from_email(files.read(name), validate=True)
    assert (metadata.name, str(metadata.version)) == (DISTRIBUTION, __version__)
    assert metadata.description_content_type == "text/markdown"
    assert not [str(each) for each in metadata.requires_dist or () if each.name == "rota"]


def constraints(lock: str) -> str:
    """Return the lock's versions without hashes, which pip would then also want of the package itself."""
    pins = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?(==[^\\\n]+)", lock, re.M)
    return "".join(f"{name}{version.rstrip()}\n" for name, version in pins)


def try_wheel(folder: Path, wheel: Path, limits: Path) -> None:
    """Install the wheel alone, then the extras one after the other by the name of the distribution."""
    python = environment(folder / "wheel")
    install(python, limits, str(wheel))
    run(python, "-P", USE, "base", cwd=folder)
    install(python, limits, f"{DISTRIBUTION}[server]")
    run(python, "-P", USE, "base", "server", cwd=folder)
    install(python, limits, f"{DISTRIBUTION}[embedded]")
    run(python, "-P", USE, "base", "server", "embedded", cwd=folder)
    run(sys.executable, "-m", "pip", "--python", python, "check")


def try_sdist(folder: Path, sdist: Path, limits: Path) -> None:
    """Install the sdist with every extra, as pip does by default."""
    python = environment(folder / "sdist")
    install(python, limits, f"{sdist}[{','.join(EXTRAS)}]")
    run(python, "-P", USE, "base", "server", "embedded", cwd=folder)
    run(sys.executable, "-m", "pip", "--python", python, "check")


def environment(place: Path) -> Path:
    """Make an empty virtual environment; return its interpreter."""
    run(sys.executable, "-m", "venv", "--without-pip", place)
    return place / "bin" / "python"


def install(python: Path, limits: Path, requirement: str) -> None:
    """Install with pip from outside the environment, which so has nothing but what the requirement brings."""
    variables = {"PIP_CONSTRAINT": str(limits), "PIP_BUILD_CONSTRAINT": str(limits)}
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-input", requirement, **variables)


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> None:
    """Run a command without this shell's settings of Rota; fail with all that it has printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_") and name != "PYTHONPATH"}
    clean |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"`{' '.join(map(str, command))}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
