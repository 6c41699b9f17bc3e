"""Ids are UUIDv7, unique, and rise in the order in which a process makes them."""

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import RFC_4122, UUID

import pytest

from rota.model import ids
from rota.model.ids import new_id, new_id_text, new_id_texts


@pytest.mark.req("Q02")
def test_it_is_a_uuid_of_version_7_with_the_time_in_front():
    before = time.time_ns() // 1_000_000
    id = new_id()
    assert id.version == 7
    assert id.variant == RFC_4122
    assert before <= id.int >> 80 <= time.time_ns() // 1_000_000


def test_text_is_canonical():
    text = new_id_text()
    assert str(UUID(text)) == text


def test_they_rise_one_by_one_and_in_batches():
    made = [*new_id_texts(1000), *(new_id_text() for _ in range(1000)), *new_id_texts(1000)]
    assert made == sorted(set(made))
    assert all(UUID(text).version == 7 and UUID(text).variant == RFC_4122 for text in made)


def test_a_clock_that_steps_back_does_not_matter(monkeypatch):
    first = new_id_text()
    monkeypatch.setattr(ids.time, "time_ns", lambda: 1_000_000_000)
    assert new_id_text() > first


def test_threads_get_different_ones():
    with ThreadPoolExecutor(8) as threads:
        made = [text for batch in threads.map(new_id_texts, [500] * 40) for text in batch]
    assert len(set(made)) == 20_000


def _make(queue) -> None:
    queue.put(new_id_texts(100))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_repeat_its_parent():
    new_id_text()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_make, args=(queue,))
    child.start()
    theirs = queue.get()
    child.join()
    assert not set(theirs) & set(new_id_texts(100))
    prefixes = {text[:23] for text in theirs}
    assert prefixes.isdisjoint({new_id_text()[:23]})
