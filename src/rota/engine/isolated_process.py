"""The process of isolated handlers, as seen from the worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

from rota.engine.frames import Message, pack, unpack
from rota.engine.supervisor import describe_exit

LAST_WORDS_S = 0.2  # from the end of a process to the end of what it has sent
END_WITHIN_S = 5.0  # for a process that has closed its connection, as one that ends does, to end by itself
GONE_WITHIN_S = 1.0  # from a SIGKILL to the end

# Our own sys.path comes first of all: Rota itself may have been found through it.
_BOOT = "import sys; sys.path[:] = sys.argv[2:]; from rota.engine.isolated_child import main; main(int(sys.argv[1]))"
_OPTIONS = ("-u", "-X", "faulthandler")  # what was printed before a crash is seen, and where it happened


class IsolatedProcess(asyncio.Protocol):
    """A child that answers one message at a time, and the means to end it."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()  # tasks whose handlers it has imported
        self.idle_since = 0.0
        self.on_said: Callable[[Message], None] | None = None  # called with what its handler says while it runs
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._answer: asyncio.Future[Message | None] | None = None
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        ours, theirs = socket.socketpair()
        self._socket = ours
        try:
            # Not the loop's own way to start a process: that of uvloop leaves other descriptors open in the child. And from
            # this thread, because the child is killed with the thread that started it.
            self._process = subprocess.Popen(
                [sys.executable, *_OPTIONS, "-c", _BOOT, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a group that is killed as a whole; and Ctrl-C is for the worker alone
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reaper = threading.Thread(target=self._reap, args=[asyncio.get_running_loop()], name="rota-reaper", daemon=True)
        reaper.start()

    async def connect(self, welcome: Message) -> None:
        """Begins the conversation; again is harmless."""
        if self._transport is None:
            loop = asyncio.get_running_loop()
            self._transport, _ = await loop.create_unix_connection(lambda: self, sock=self._socket)
            self._transport.write(pack(welcome))

    @property
    def alive(self) -> bool:
        """Whether it can be asked something."""
        return self._transport is not None and not self._transport.is_closing() and not self.exited.done()

    async def ask(self, message: Message) -> Message | None:
        """Sends a message and waits for the answer, None when the process ended instead. Cancelled, it can be waited for again."""
        self._answer = asyncio.get_running_loop().create_future()
        self.tell(message)
        if not self.alive:
            return None
        return await asyncio.shield(self._answer)

    def tell(self, message: Message) -> None:
        """Sends a message that has no answer."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(pack(message))

    async def answer_within(self, seconds: float) -> Message | None:
        """The answer to what was asked, if it comes in time."""
        assert self._answer is not None
        await asyncio.wait({self._answer}, timeout=seconds)
        return self._answer.result() if self._answer.done() else None

    async def end(self) -> str:
        """Makes sure that it is gone, with everything that it started, and says in words how it ended."""
        killed = True
        try:
            await asyncio.wait({self.exited}, timeout=END_WITHIN_S)
            killed = not self.exited.done()
        finally:
            await self.kill()
        status = self.exited.result() if self.exited.done() else -signal.SIGKILL
        if status != -signal.SIGKILL:
            return describe_exit(status)
        return "closed its connection to the worker and had to be killed" if killed else f"{describe_exit(status)} (out of memory?)"

    async def kill(self) -> None:
        """Kills it and everything that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.close()
        await asyncio.wait({self.exited}, timeout=GONE_WITHIN_S)

    def close(self) -> None:
        """Ends the conversation: idle, the process ends in an orderly way, and otherwise at once."""
        if self._transport is not None:
            self._transport.abort()
        else:
            self._socket.close()

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        status = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know
            loop.call_soon_threadsafe(self._note_exit, status)

    def _note_exit(self, status: int) -> None:
        self.exited.set_result(status)
        # A process that it forked may hold the socket open, so the end of the conversation is not waited for.
        asyncio.get_running_loop().call_later(LAST_WORDS_S, self.close)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (message := unpack(self._buffer)) is not None:
            if "said" in message:
                if self.on_said is not None:
                    self.on_said(message)
            else:
                self._settle(message)

    def connection_lost(self, _error: Exception | None) -> None:
        self._settle(None)

    def _settle(self, answer: Message | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)
