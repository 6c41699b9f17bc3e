"""What failures are grouped by: the type of the error and where in the application it came from.

Line numbers, addresses and messages are left out, and so are the frames of libraries: an edit above the line, another release of a
dependency or another customer's id in the message does not make it another error.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import PurePath
from types import CodeType, FrameType

from rota.errors import CallFailed

LENGTH = 16  # hexadecimal digits
MAX_FRAMES = 1000  # looked at; more than that is a recursion
MAX_CHAIN = 5  # explicit causes, and the members of a group

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = tuple(os.path.abspath(path) + os.sep for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")} if path)
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_OWN_APPLICATIONS = (f"{_OURS}apps{os.sep}", f"{_OURS}demo.py")
_SCRIPTS = ("__main__", "__mp_main__")


def fingerprint(error: BaseException) -> str | None:
    """The group that an exception belongs to; None when none of its frames is the application's."""
    parts = list(_parts(error, MAX_CHAIN))
    if not any(part.startswith("  ") for part in parts):
        return None
    return sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:LENGTH]


def qualified_name(kind: type) -> str:
    """The class with its module, those of built-in ones and of scripts left out."""
    name = getattr(kind, "__qualname__", kind.__name__)
    module = getattr(kind, "__module__", None)
    return name if not isinstance(module, str) or module in ("builtins", *_SCRIPTS) else f"{module}.{name}"


def _parts(error: BaseException, left: int) -> Iterator[str]:
    yield qualified_name(type(error))
    # Each place once: a recursion of another depth is the same error.
    for place in dict.fromkeys(_places(error)):
        yield f"  {place}"
    if isinstance(error, CallFailed):
        # All are raised at one place: what tells them apart is what became of the call.
        yield f"{error.call.get('reason')} {error.call.get('status')}"
    if left <= 0:
        return
    if isinstance(error, BaseExceptionGroup):
        # In an order of their own, as the tasks of a group end in any.
        members = {"\n".join(_parts(member, left - 1)) for member in islice(error.exceptions, MAX_CHAIN)}
        for member in sorted(members):
            yield f"of\n{member}"
    if error.__cause__ is not None:  # not its context: that is what happened to be handled at the time
        yield "from"
        yield from _parts(error.__cause__, left - 1)


def _places(error: BaseException) -> Iterator[str]:
    own: str | None = None  # the package of the handler, when that is installed beside its dependencies
    seen_first = False
    trace, number = error.__traceback__, 0
    while trace is not None and number < MAX_FRAMES:
        frame, code = trace.tb_frame, trace.tb_frame.f_code
        trace, number = trace.tb_next, number + 1
        if _is_ours(code):
            continue
        module = _module(frame)
        package = module.partition(".")[0]
        installed = any(part in code.co_filename for part in _INSTALLED)
        if not seen_first:
            seen_first, own = True, package if installed else None
        if not installed or package == own:
            yield f"{module}:{code.co_qualname}"


def _is_ours(code: CodeType) -> bool:
    """Whether it is Rota's or Python's own."""
    path = code.co_filename
    if path.startswith("<frozen "):
        return True
    if path.startswith(_OURS):
        return not path.startswith(_OWN_APPLICATIONS)
    return path.startswith(_STDLIB) and not any(part in path for part in _INSTALLED)


def _module(frame: FrameType) -> str:
    module = frame.f_globals.get("__name__")
    # A script has another module name in each process that runs it, but one file.
    return module if isinstance(module, str) and module not in _SCRIPTS else PurePath(frame.f_code.co_filename).stem
