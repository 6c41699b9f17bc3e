"""structlog without Rich, which it would load where it finds it, for tracebacks that we write plainly: 4 MB per worker."""

from __future__ import annotations

import sys

_hidden = "rich" not in sys.modules
if _hidden:
    sys.modules["rich"] = None  # type: ignore[assignment]
try:
    import structlog
finally:
    if _hidden:
        del sys.modules["rich"]

__all__ = ["structlog"]
