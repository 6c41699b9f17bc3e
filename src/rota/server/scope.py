"""What is noted in the scope of a request on its way in, and what can be read from it."""

from __future__ import annotations

from starlette.types import Scope

REQUEST_ID = "rota_request_id"  # what logs and errors name it by
PRINCIPAL = "rota_principal"  # who asks: the guard writes it down when it knows


def own_path(scope: Scope) -> str:
    """The path of a request within this application, without what stands before it: a mount's path, a proxy's."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path
