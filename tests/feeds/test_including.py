"""Applications within applications: options, what `install` gives, and what only servers load."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.feeds.world import make_app
from tests.support import command

from rota.errors import UsageError

NOWHERE = "postgresql://nowhere/"


def test_including_gives_what_installing_gave_however_often() -> None:
    app = make_app(NOWHERE)
    feeds = app.include("rota.apps.feeds", min_interval=timedelta(minutes=1))
    assert app.include("rota.apps.feeds") is feeds
    assert app.routers == ["rota.apps.feeds.routes:router"]
    assert {"fetch_feed", "renew_websub", "ask_hub", "read_delivery", "import_opml"} <= set(app.tasks)


def test_options_that_come_too_late_are_refused() -> None:
    app = make_app(NOWHERE, app_apps="rota.apps.feeds")
    with pytest.raises(UsageError, match="included already"):
        app.include("rota.apps.feeds", slots=3)


@pytest.mark.parametrize(
    "options", [{"min_interval": timedelta(days=2)}, {"max_bytes": 1}, {"timeout_s": 0}, {"max_entries": 0}, {"host_rate": "often"}]
)
def test_options_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        make_app(NOWHERE).include("rota.apps.feeds", **options)


def test_whoever_only_enqueues_loads_neither_server_nor_parser(tmp_path: Path) -> None:
    code = (
        "import sys; from rota import Rota; Rota('postgresql://nowhere/').include('rota.apps.feeds');"
        "print([name for name in ('fastapi', 'feedparser', 'aiohttp') if name in sys.modules])"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=command.environment())
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
