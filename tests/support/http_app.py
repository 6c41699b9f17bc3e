"""An application with HTTP jobs, for workers in processes of their own; the environment says what may be called."""

from __future__ import annotations

from rota import Rota

app = Rota()
