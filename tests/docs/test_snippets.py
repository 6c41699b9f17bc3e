"""Every snippet of README and docs does what the text around it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.snippets import Reader, read_snippets

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_document(document: Path, dsn: str, tmp_path: Path) -> None:
    snippets = read_snippets(document)
    # What people read first is done exactly as they would do it.
    reader = Reader(tmp_path, dsn, forked=document.name != "README.md")
    try:
        for snippet in snippets:
            try:
                reader.follow(snippet)
            except AssertionError as error:
                raise AssertionError(f"{document.name}, line {snippet.line}: {error}") from None
    finally:
        reader.close()


def test_links_lead_somewhere() -> None:
    for document in [*DOCUMENTS, *sorted((ROOT / "docs" / "decisions").glob("*.md")), ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}, which is not there"
