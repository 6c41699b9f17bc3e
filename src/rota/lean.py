"""structlog without Rich and greenlet, which it would load where it finds them: 5 MB per worker.

Rich is for tracebacks, which we write plainly; greenlet for contexts of its own, which those who use it have loaded before us.
"""

from __future__ import annotations

import sys

_hidden = [name for name in ("rich", "greenlet") if name not in sys.modules]
for _name in _hidden:
    sys.modules[_name] = None  # type: ignore[assignment]
try:
    import structlog
finally:
    for _name in _hidden:
        del sys.modules[_name]

__all__ = ["structlog"]
