"""What the chart carries is what `make dashboards` writes."""

from monitoring.written import files


def test_the_files_of_the_chart_are_current() -> None:
    for path, text in files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is old: make dashboards"


def test_nothing_lies_beside_them() -> None:
    """A dashboard that was renamed would stay under its old name, and be installed twice."""
    for folder in {path.parent for path in files() if path.parent.name == "dashboards"}:
        assert set(folder.iterdir()) == {path for path in files() if path.parent == folder}
