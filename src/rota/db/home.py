"""The folder of an embedded server: who may use it, where its files really lie, and how it is filled the first time."""

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

from rota.db.binaries import Binaries
from rota.db.unprivileged import as_user, give, give_tree, initdb_uid, reachable_root, reaches, server_uid
from rota.errors import ConfigError, Conflict, DatabaseError

SUPERUSER = "postgres"
SOCKET_PATH_MAX = 100  # the system's limit is 107 bytes on Linux and 103 on macOS


class Home:
    """One server's folder: `data`, `run` (its socket), `password` and `server.log`, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        # Open to pass through, because initdb runs as another user than the server; all that lies inside is closed.
        _make(self.folder, server_uid(self.folder), 0o711)
        self._lock = _take(self.folder / "owner.lock", self.folder)
        try:
            self.root = _locate(self.folder)
            self.data = self.root / "data"
            self.uid = server_uid(self.data)
            self.run = _socket_dir(self.root, self.uid)
        except BaseException:
            self.release()
            raise
        self.log = self.root / "server.log"
        self.password_file = self.root / "password"

    def release(self) -> None:
        """Let the next process have the folder."""
        os.close(self._lock)

    def remove(self) -> None:
        """Delete the folder and everything that belongs to it."""
        for path in {self.run, self.root, self.folder}:
            shutil.rmtree(path, ignore_errors=True)

    @property
    def password(self) -> str:
        """What the superuser signs in with over TCP."""
        return self.password_file.read_text()

    @property
    def major(self) -> int | None:
        """The PostgreSQL that made the data; None before there is any."""
        version = self.data / "PG_VERSION"
        return int(version.read_text()) if version.exists() else None

    def fill(self, binaries: Binaries, *, sync: bool) -> None:
        """Make the data directory, whole or not at all.

        Anyone on the machine can knock at a loopback port, so that asks for a random password. The socket lies in a
        directory that only the server's user (and root) can enter: the file system has asked, and `trust` will do.
        """
        self.password_file.unlink(missing_ok=True)
        with open(os.open(self.password_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24))
        author = initdb_uid(self.uid)
        give(self.password_file, author)
        for unfinished in self.root.glob("data.*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        # A name of its own, because the initdb of an owner that was killed may still be writing to the former one.
        begun = self.root / f"data.{secrets.token_hex(4)}"
        begun.mkdir(mode=0o700)
        give(begun, author)
        # Codepoint order on every system; letters beyond ASCII are known as such where the system has C.UTF-8.
        for ctype in ("C.UTF-8", "C"):
            result = subprocess.run(
                [
                    binaries.program("initdb"),
                    *("-D", begun, "-U", SUPERUSER, f"--pwfile={self.password_file}"),
                    *("--auth-local=trust", "--auth-host=scram-sha-256"),
                    *("--encoding=UTF8", "--locale=C", f"--lc-ctype={ctype}", "--no-instructions"),
                    *([] if sync else ["--no-sync"]),
                ],
                **self.surroundings(binaries),
                **as_user(author),
                capture_output=True,
                text=True,
            )
            if result.returncode == 0:
                give(self.password_file, self.uid)
                give_tree(begun, self.uid)
                begun.rename(self.data)
                return
        raise DatabaseError(f"initdb could not make {self.data}: {result.stderr.strip()}")

    def surroundings(self, binaries: Binaries) -> dict[str, Any]:
        """Give the directory and the environment in which one of PostgreSQL's programs runs here."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
        # An unprivileged user may be unable to enter the directory we are in, and PostgreSQL wants to know where it is.
        return {"cwd": self.root, "env": {**inherited, "LC_ALL": "C", "TZ": "UTC", **binaries.env}}


def _make(path: Path, uid: int | None, mode: int = 0o700) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir()
        path.chmod(mode)
        give(path, uid)
    elif not path.is_dir():
        raise ConfigError(f"data folder {path} is not a directory: name one that is, or one that does not exist yet")


def _take(lock: Path, folder: Path) -> int:
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 20).decode().strip() or "unknown"
        os.close(descriptor)
        raise Conflict(
            f"the PostgreSQL in {folder} is already running, started by process {owner}: "
            "stop that one, connect to it, or name another folder"
        ) from None
    os.truncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _locate(folder: Path) -> Path:
    """Say where the files lie: in the folder, or where the server's user can reach them, noted in the folder."""
    note = folder / "location"
    if note.exists():
        root = Path(note.read_text().strip())
        if not root.is_dir():
            raise ConfigError(f"the data of {folder} lay in {root}, which is gone: delete {note} to begin anew")
        return root
    uid = server_uid(folder / "data")
    if reaches(folder, uid):
        return folder
    if (folder / "data").exists():
        raise ConfigError(f"user id {uid} can no longer enter {folder}: open its parents (mode o+x), or move it")
    root = reachable_root(uid) / f"{folder.name}-{secrets.token_hex(6)}"
    _make(root, uid, 0o711)
    note.write_text(f"{root}\n")
    return root


def _socket_dir(root: Path, uid: int | None) -> Path:
    path = root / "run"
    if len(os.fsencode(path / ".s.PGSQL.65535")) > SOCKET_PATH_MAX:
        path = reachable_root(uid) / f"run-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
    _make(path, uid)
    return path
