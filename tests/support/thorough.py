"""How long tests look that could look for ever: shorter in the suite, which runs at every change, than when asked for the whole."""

from __future__ import annotations

import os

WHOLE = bool(os.environ.get("ROTA_TEST_WHOLE"))  # `ROTA_TEST_WHOLE=1 make test`


def examples(count: int) -> int:
    """Give the number of examples to try: a third of `count`, others in each run, unless the whole is asked for."""
    return count if WHOLE else (count + 2) // 3
