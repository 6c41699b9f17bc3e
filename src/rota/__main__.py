"""`python -m rota` is the command `rota`."""

from rota.cli.main import run

run()
