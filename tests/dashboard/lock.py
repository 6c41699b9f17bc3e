"""The dashboard's lock, resolved anew: `python -m tests.dashboard.lock` writes dashboard/package-lock.json.

Without addresses of any host: packages come from whatever registry npm is set up with, and are held by their hashes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.dashboard.schema import DASHBOARD, node

LOCK = DASHBOARD / "package-lock.json"


def main(arguments: list[str]) -> None:
    """Resolves, and takes out what is only advertising."""
    npm = Path(node()).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = os.pathsep.join([os.path.dirname(node()), os.environ["PATH"]])
    command = [node(), str(npm), "install", "--ignore-scripts", *arguments]
    subprocess.run(command, cwd=DASHBOARD, env={**os.environ, "PATH": path}, check=True)
    made = json.loads(LOCK.read_text("utf-8"))
    for package in made["packages"].values():
        package.pop("funding", None)
        if "://" in str(package.get("deprecated", "")):
            del package["deprecated"]
    LOCK.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])  # as `--before=2026-10-22`
