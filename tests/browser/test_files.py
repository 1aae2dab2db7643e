"""Files on the page: chosen, pasted and dropped, sent with a message, shown, and saved again."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.conftest import People, picture, says

pytestmark = pytest.mark.timeout(240)

# A red square of 40 x 40 pixels.
SQUARE = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAACgAAAAoCAIAAAADnC86AAAALUlEQVR4nO3NAQ0AAAgDILV/Z43xzUEBeitjQq9Y"
    "LBaLxWKxWCwWi8VisfhlfNx8AU/2fBdLAAAAAElFTkSuQmCC"
)
CAT = FilePayload(name="a cat.png", mimeType="image/png", buffer=SQUARE)
NOTES = FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"buy milk\n")

BRING = """
([target, kind, name, content]) => {
  const data = new DataTransfer();
  data.items.add(new File([content], name, { type: "text/plain" }));
  const more = kind === "paste" ? { clipboardData: data } : { dataTransfer: data };
  const event = kind === "paste" ? new ClipboardEvent(kind, { ...more, bubbles: true, cancelable: true })
    : new DragEvent(kind, { ...more, bubbles: true, cancelable: true });
  document.querySelector(target).dispatchEvent(event);
}
"""


def choose(page: Page, *files: FilePayload) -> None:
    """Choose files by the button."""
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Attach files").click()
    chooser.value.set_files([*files])


def chosen(page: Page) -> None:
    expect(page.locator("#chosen .file[data-state=sending]")).to_have_count(0)


def test_a_picture_and_a_file_are_sent_shown_and_saved_again(people: People, tmp_path: Path) -> None:
    page = people.somebody()
    choose(page, CAT, NOTES)
    expect(page.locator("#chosen .file[data-state=sent]")).to_have_count(2)
    picture(page, "files-chosen")
    says(page, "What is this?")
    expect(page.locator("#chosen")).to_be_hidden()
    expect(page.locator(".bubble")).to_have_text("What is this?")
    expect(page.locator(".parts")).to_contain_text("cannot see what you sent: photo a_cat.png, document")
    image = page.locator(".said img")
    expect(image).to_have_js_property("naturalWidth", 40)
    page.reload()
    expect(image).to_have_js_property("naturalWidth", 40)
    picture(page, "files")
    save = page.get_by_role("button", name=re.compile("notes.txt"))
    expect(save).to_be_visible()
    with page.expect_download() as download:
        save.click()
    download.value.save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == NOTES["buffer"]
    page.get_by_role("button", name="a_cat.png").click()
    expect(page.locator("dialog .whole-picture")).to_have_js_property("naturalWidth", 40)


def test_files_are_pasted_and_dropped_and_removed_again(people: People) -> None:
    page = people.somebody()
    field = page.get_by_label("Message", exact=True)
    expect(field).to_be_focused()
    page.evaluate(BRING, ["#composer", "paste", "pasted.txt", "one"])
    expect(page.locator("#chosen .file-name")).to_have_text(["pasted.txt"])
    page.evaluate(BRING, ["#scroll", "drop", "dropped.txt", "two"])
    expect(page.locator("#chosen .file-name")).to_have_text(["pasted.txt", "dropped.txt"])
    chosen(page)
    page.get_by_role("button", name="Remove pasted.txt").click()
    expect(page.locator("#chosen .file-name")).to_have_text(["dropped.txt"])
    send = page.get_by_role("button", name="Send", exact=True)
    expect(send).to_be_enabled()
    send.click()
    expect(page.locator(".parts")).to_contain_text("cannot see what you sent: document dropped.txt.")
    expect(page.locator("h1")).to_have_text("dropped.txt")


def test_a_file_that_cannot_be_sent_says_why(people: People) -> None:
    page = people.somebody()
    choose(page, FilePayload(name="empty.txt", mimeType="text/plain", buffer=b""))
    expect(page.locator("#chosen .file-told")).to_have_text("empty: choose another file")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    page.evaluate(
        "() => { const data = new DataTransfer();"
        " data.items.add(new File([new Uint8Array(20000001)], 'big.bin'));"
        " document.querySelector('#main').dispatchEvent("
        "new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); }"
    )
    told = page.locator("#chosen .file", has_text="big.bin").locator(".file-told")
    expect(told).to_have_text("larger than 20 MB: make it smaller, or name a link to it")


def test_an_edited_message_keeps_its_files(people: People) -> None:
    page = people.somebody()
    choose(page, NOTES)
    expect(page.locator("#chosen .file[data-state=sent]")).to_have_count(1)
    says(page, "a mistkae")
    expect(page.locator(".parts")).to_contain_text("You said: a mistkae")
    expect(page.get_by_role("button", name="Edit")).to_be_visible()
    page.get_by_role("button", name="Edit").click()
    expect(page.locator("#chosen .file-name")).to_have_text(["notes.txt"])
    expect(page.get_by_label("Message", exact=True)).to_have_value("a mistkae")
    says(page, "no mistake")
    expect(page.locator(".bubble")).to_have_text(["no mistake"])
    expect(page.locator(".said .file-name")).to_have_text(["notes.txt"])
    expect(page.locator(".turn").last.locator(".parts")).to_contain_text("You said: no mistake")
