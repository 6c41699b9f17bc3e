"""The application of the server's measurements: nothing of its own but what the settings add."""

from rota import Rota

app = Rota()
