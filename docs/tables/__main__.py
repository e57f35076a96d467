"""`python -m docs.tables`: writes every generated section, and what of the chart follows."""

from docs.tables.chart import CHART, files
from docs.tables.registry import SECTIONS
from docs.tables.section import pages
from master.settings import MasterSettings

for name, text in files(MasterSettings).items():
    (CHART / name).write_text(text, encoding="utf-8")
for path, text in pages(SECTIONS).items():
    path.write_text(text, encoding="utf-8")
