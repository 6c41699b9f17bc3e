"""One thing for all processes of a test run, made by the first of them when another one asks for it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Listener
from threading import Thread
from typing import Any

Address = tuple[str, str]  # of the socket, and the key to it


class Offer:
    """Answers whoever asks, from a thread, with what `make` gives; nothing is made for those who never ask."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._key = secrets.token_bytes(16)
        self._listener = Listener(authkey=self._key, backlog=64)
        self._open = True
        self._thread = Thread(target=self._serve, name="rota-offer", daemon=True)
        self._thread.start()

    @property
    def address(self) -> Address:
        """Where to ask."""
        return str(self._listener.address), self._key.hex()

    def close(self) -> None:
        """Answers no more."""
        self._open = False
        with suppress(OSError):
            Client(self._listener.address, authkey=self._key).close()  # the thread waits for somebody to come
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while self._open:
            with suppress(OSError, EOFError), self._listener.accept() as line:
                if self._open:
                    line.send(self._answer())

    def _answer(self) -> tuple[Any, str | None]:
        try:
            return self._make(), None
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"


def ask(address: Address) -> tuple[Any, str | None]:
    """What is offered there, or what went wrong when it was made; OSError when nobody is there."""
    path, key = address
    with Client(path, authkey=bytes.fromhex(key)) as line:
        answer: tuple[Any, str | None] = line.recv()
    return answer
