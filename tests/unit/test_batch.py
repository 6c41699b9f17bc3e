"""While a large batch is made Python does not look for garbage, and afterwards it does what it did before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from rota import Rota
from rota.model.batch import kept
from rota.model.job import NewJob


def test_it_looks_for_garbage_again_afterwards_also_after_an_error() -> None:
    with kept():
        assert not gc.isenabled()
    assert gc.isenabled()

    app = Rota("postgresql:///none")

    @app.task
    async def work() -> None: ...

    def jobs() -> Iterator[NewJob]:
        yield work.job()
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        app.enqueue_many(jobs())
    assert gc.isenabled()


def test_where_it_did_not_before_it_does_not_afterwards() -> None:
    gc.disable()
    try:
        with kept():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
