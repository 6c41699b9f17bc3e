"""A scheduler process under test: the real service, and nothing else of a worker."""

from __future__ import annotations

import os
import sys

import uvloop
from tests.chaos import schedule_sabotage
from tests.chaos.lifeline import end_with_harness

from rota.config import LogSettings
from rota.engine.journal import Journal
from rota.engine.scheduler import Scheduler
from rota.engine.service import keep_serving
from rota.events import Events
from rota.log import configure_logging
from rota.model.ids import new_id

TICK_S = 1.0
LOOK_S = 0.1  # how soon a clock that was moved is noticed


def main(lock: str) -> None:
    """Schedule until killed."""
    end_with_harness()
    configure_logging(LogSettings(format="json"))
    schedule_sabotage.in_process(os.environ.get(schedule_sabotage.VARIABLE))
    events = Events()
    Journal(events, new_id())
    scheduler = Scheduler(events, tick_s=TICK_S, look_s=LOOK_S, lock=lock == "lock")
    uvloop.run(keep_serving(scheduler, os.environ["CHAOS_DSN"], events))


if __name__ == "__main__":
    main(*sys.argv[1:])
