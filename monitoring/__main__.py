"""`python -m monitoring`: writes the dashboards and alerts of the chart anew."""

from monitoring.written import files

for path, text in files().items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
