"""`python -m docs.tables`: writes every generated section of the documentation."""

from docs.tables.registry import SECTIONS
from docs.tables.section import pages

for path, text in pages(SECTIONS).items():
    path.write_text(text, encoding="utf-8")
