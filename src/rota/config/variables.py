"""Find environment variables that look like settings and are none."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable

from rota.config.loading import FILE_VARIABLE, PREFIX, SECTIONS

CONNECTION_VARIABLES = ("ROTA_URL", "ROTA_TOKEN")  # for commands that work over the API of a server
SIMILAR = 0.85  # ROTA_DATBASE_URL is reported; ROTA_CACHE belongs to another program
OF_TESTS = "ROTA_TEST_"  # read by Rota's own tests and by its plugin for pytest
# Kubernetes sets these in every pod for a service whose name begins with "rota-".
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?$")

log = logging.getLogger("rota.config")
_reported: set[str] = set()


def unknown_variables() -> dict[str, str]:
    """Return each `ROTA_*` variable that is no setting, with a sentence about it that does not show its value."""
    known = {
        FILE_VARIABLE,
        *CONNECTION_VARIABLES,
        *(f"{PREFIX}{section}_{key}".upper() for section, keys in SECTIONS.items() for key in keys),
    }
    found = {}
    for variable, value in os.environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(OF_TESTS) or _SERVICE_LINK.search(variable):
            continue
        if variable in known or not value:
            continue
        section = variable.removeprefix(PREFIX).partition("_")[0].lower()
        near = _nearest(variable, known, 0.7 if section in SECTIONS else SIMILAR)
        if near is not None:
            found[variable] = f"{variable} is ignored: it is not a setting; did you mean {near}?"
        elif section in SECTIONS:
            found[variable] = (
                f"{variable} is ignored: [{section}] has no such setting; `rota config show {section}` lists those it has"
            )
    return found


def warn_of_unknown_variables() -> None:
    """Log a warning for each unknown variable, once per process."""
    for variable, sentence in unknown_variables().items():
        if variable not in _reported:
            _reported.add(variable)
            log.warning(sentence)


def _nearest(variable: str, known: Iterable[str], cutoff: float) -> str | None:
    from difflib import get_close_matches  # here, since most processes never misspell anything

    return next(iter(get_close_matches(variable, known, n=1, cutoff=cutoff)), None)
