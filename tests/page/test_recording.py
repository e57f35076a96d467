"""The recording of the README is what a terminal shows, and can be read moving or still."""

from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.e2e.conftest import RunningDemo
from tests.page import pictures, recording
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = pytest.mark.e2e
Motion = Literal["no-preference", "reduce"]
KEPT = pictures.FOLDER / pictures.RECORDING
MOST_BYTES = 100_000
_SHOWN = """() => [...document.querySelectorAll('g[class^=part]')].filter(
    each => getComputedStyle(each).visibility === 'visible').map(each => each.textContent)"""
_AT = "at => document.getAnimations().forEach(each => { each.pause(); each.currentTime = at })"
SAID = (
    recording.Said("topo first <b>", "\x1b[32mwell\x1b[0m & good"),
    recording.Said("topo second", "a\n\nb"),
)


def test_the_recording_is_what_the_commands_say_of_a_demo(demo: RunningDemo) -> None:
    """To the letter: where a command or its words change, `make pictures` writes it anew."""
    eventually(demo.is_ready)
    try:
        made = pictures.recorded(demo)
    finally:
        demo.topo("demo", "heal")
    assert made == KEPT.read_text(encoding="utf-8")
    assert len(made.encode()) < MOST_BYTES
    assert not any(each in made for each in ("<script", "url(", "href"))


def test_it_moves_from_screen_to_screen_or_stands_still_for_who_asks(browser: Browser) -> None:
    """A command is typed, then answered, then the next; one screen stands where motion is off."""
    drawn = recording.drawn([SAID[:1], SAID], still=1)
    typed_ms = recording.TYPED_S * 1000
    pause_ms = recording.PAUSE_S * 1000
    begun_ms = typed_ms + pause_ms + 2 * recording.LINE_S * 1000
    first, answer = "$ topo first <b>", "well & good"
    moments = {
        typed_ms / 2: [first],
        typed_ms + 100: [first, answer],
        begun_ms + 100: [first],
        begun_ms + typed_ms + pause_ms + 100: [first, answer, "$ topo second"],
        begun_ms + 2 * typed_ms + pause_ms + 100: [first, answer, "$ topo second", "ab"],
    }
    last = {0.0: moments[max(moments)]}
    motions: tuple[tuple[Motion, dict[float, list[str]]], ...]
    motions = (("no-preference", moments), ("reduce", last))
    for motion, wanted in motions:
        context = browser.new_context(reduced_motion=motion)
        page = context.new_page()
        page.set_content(drawn)
        for at_ms, shown in wanted.items():
            page.evaluate(_AT, at_ms)
            found = [each.replace("\N{NO-BREAK SPACE}", " ") for each in page.evaluate(_SHOWN)]
            assert found == shown, (motion, at_ms)
        context.close()
