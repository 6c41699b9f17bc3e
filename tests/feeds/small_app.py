"""An application with feeds that are due again at once, for workers in processes of their own."""

from __future__ import annotations

from datetime import timedelta

from rota import Rota

app = Rota()
app.include(
    "rota.apps.feeds", min_interval=timedelta(seconds=1), max_interval=timedelta(seconds=1), host_rate=None, host_concurrency=3
)
