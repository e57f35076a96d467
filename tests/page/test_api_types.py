"""The page is checked against the documents that the API publishes today."""

from tests.page.api_types import FILE, rendered


def test_the_types_of_the_page_are_those_of_the_documents() -> None:
    assert FILE.read_text() == rendered(), "run `make docs`"
