"""The user a server started by root runs as, and the places that user can reach."""

import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import Any

from rota.errors import ConfigError

# PostgreSQL refuses to run as root. This id needs no entry in /etc/passwd: systemd leaves 65520–65533 unassigned,
# `nobody` is shared with other software, and an id below 65536 exists inside a user namespace too.
SERVER_UID = 65525


def server_uid(data: Path) -> int | None:
    """Say which user the server of this data directory runs as: None means the one we are."""
    if os.geteuid() != 0:
        return None
    owner = data.stat().st_uid if data.exists() else 0
    return owner or SERVER_UID


def initdb_uid(uid: int | None) -> int | None:
    """Say who makes the data directory for that user: initdb, unlike the server, insists on an account with a name."""
    if uid is None:
        return None
    accounts = {account.pw_uid: account.pw_name for account in pwd.getpwall() if account.pw_uid != 0}
    if uid in accounts:
        return uid
    if not accounts:
        raise ConfigError("every account of /etc/passwd is root, and initdb needs another: add one, such as `nobody`")
    return next((each for each, name in accounts.items() if name == "nobody"), max(accounts))


def as_user(uid: int | None) -> dict[str, Any]:
    """Give the arguments with which `subprocess` starts a process as that user, with no other groups."""
    return {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}


def give(path: Path, uid: int | None) -> None:
    """Make that user the owner of a path that we have just made."""
    if uid is not None:
        os.chown(path, uid, uid)


def give_tree(path: Path, uid: int | None) -> None:
    """Make that user the owner of a directory and of all in it, following no link that its former owner may plant."""
    if uid is None:
        return
    os.chown(path, uid, uid)
    for _, directories, files, descriptor in os.fwalk(path):
        for name in (*directories, *files):
            os.chown(name, uid, uid, dir_fd=descriptor, follow_symlinks=False)


def reaches(path: Path, uid: int | None) -> bool:
    """Say whether that user can execute a file, or enter a directory, through all of its parents."""
    if uid is None:
        return True
    path = path.resolve()
    return all(_executable(each.stat(), uid) for each in (path, *path.parents))


def _executable(status: os.stat_result, uid: int) -> bool:
    return bool(status.st_mode & (stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH))


def reachable_root(uid: int | None) -> Path:
    """Find or make a directory of ours that the server's user can enter, even when HOME and the checkout are closed."""
    candidates = (Path("/var/lib/rota"), Path(tempfile.gettempdir(), f"rota-{os.geteuid()}"))
    for path in candidates:
        try:
            path.mkdir(mode=0o755)
            path.chmod(0o755)  # mkdir obeys the umask
        except FileExistsError:
            pass
        except OSError:
            continue
        status = path.lstat()
        # In a shared /tmp anyone may have made that name before us: it must be a directory that only we can write to.
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
        if ours and reaches(path, uid):
            return path
    tried = " and ".join(map(str, candidates))
    raise ConfigError(f"no directory that user id {uid} can enter: tried {tried}; each must be ours and of mode 0755")
