"""Messages between a worker and the processes of its isolated handlers: a length, then JSON."""

from __future__ import annotations

import json
import struct
from typing import Any

Message = dict[str, Any]

_LENGTH = struct.Struct("!I")


def pack(message: Message) -> bytes:
    """A message as bytes."""
    # The standard library's JSON, because it takes everything: integers beyond 64 bits, lone surrogates.
    body = json.dumps(message).encode()
    return _LENGTH.pack(len(body)) + body


def unpack(buffer: bytearray) -> Message | None:
    """Takes the first message out of `buffer`; None while it is not whole."""
    if len(buffer) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
    if len(buffer) < end:
        return None
    message: Message = json.loads(buffer[_LENGTH.size : end])
    del buffer[:end]
    return message
