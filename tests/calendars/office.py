"""An application with calendar sync, for workers in processes of their own: settings come from the environment."""

from __future__ import annotations

from rota import Rota

app = Rota()
app.include("rota.apps.calendars")
