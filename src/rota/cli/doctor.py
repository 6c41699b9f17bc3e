"""`rota doctor`: what is wrong, who does it, and what to do."""

from __future__ import annotations

import asyncio
import os
import sys

import typer

from rota.cli.locate import AppOption
from rota.cli.migrate import folders_of
from rota.cli.output import JsonOption, format_cell, print_json, say
from rota.config import load_with_sources
from rota.config.variables import unknown_variables
from rota.control.doctor import Finding, examine
from rota.control.doctor.finding import fail, warn
from rota.db.migrations import Folders
from rota.errors import RotaError

app = typer.Typer(add_completion=False, rich_markup_mode=None)

COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}


@app.command()
def doctor(location: AppOption = None, as_json: JsonOption = False) -> None:
    """Check the database and the workers, and name what is wrong.

    The application, if one is found, says which tables the database must have beside Rota's own.

    The exit code is 1 when something does not work.
    """
    findings = asyncio.run(_examine(location, quiet=as_json))
    if as_json:
        print_json(findings)
    failed = sum(finding.level == "fail" for finding in findings)
    warned = sum(finding.level == "warn" for finding in findings)
    if not as_json:
        say(f"{failed} to repair, {warned} to look at" if failed or warned else "all is well")
    if failed:
        raise typer.Exit(1)


async def _examine(location: str | None, *, quiet: bool) -> list[Finding]:
    database = load_with_sources().checked().database
    findings = [warn("settings", sentence, "correct or remove the variable") for sentence in unknown_variables().values()]
    folders: Folders = {}
    try:
        folders = folders_of(location)
    except RotaError as error:  # the database can be looked at all the same
        findings.append(fail("application", str(error), "correct it; its tables were not looked for"))
    if not quiet:
        for finding in findings:
            _print(finding)
    async for finding in examine(
        database.dsn, folders, pooled=database.pooled, connect_timeout_s=round(database.connect_timeout_s)
    ):
        findings.append(finding)
        if not quiet:
            _print(finding)
    return findings


def _print(finding: Finding) -> None:
    colored = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    level = typer.style(f"{finding.level:5}", fg=COLORS[finding.level]) if colored else f"{finding.level:5}"
    print(f"{level} {finding.check:14} {format_cell(finding.sentence)}")
    if finding.next is not None:
        print(f"{'':20} → {finding.next}", flush=True)
