"""Where the migrations of included applications are."""

from __future__ import annotations

import re

from rota.errors import UsageError

OWN = "rota"

_NAMESPACE = re.compile(r"[a-z_][a-z0-9_]{0,49}")


class MigrationFolders(dict[str, str]):
    """Folders of numbered SQL files as "package:folder", by namespace. A namespace belongs to one application."""

    def __setitem__(self, namespace: str, folder: str) -> None:
        if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace) or namespace == OWN:
            raise UsageError(f"namespace {namespace!r} of migrations is not allowed: lowercase letters, digits and _, not {OWN!r}")
        if self.get(namespace, folder) != folder:
            raise UsageError(f"namespace {namespace!r} of migrations belongs to {self[namespace]!r}: take another for {folder!r}")
        super().__setitem__(namespace, folder)
