"""Images of the user: several at once, reload, Back, and what can be shared of them."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (the dev extra has it)")
from playwright.sync_api import expect

from tests.serving.web.page import (
    CHIP,
    PILL,
    caption_text,
    chip_names,
    clear,
    control_boxes,
    image_file,
    mock_api,
    open_sample,
    wait_for_caption,
    wait_until_saved,
)

STRIP, CARD = ".strip-image", ".image-card"


@pytest.fixture
def own(open_page):
    """An image of the user, mine.jpg, with a mocked API."""
    session = open_page(None)
    session.requests = mock_api(session.page)
    session.go()
    session.page.locator("#file").set_input_files([image_file("mine.jpg")])
    wait_for_caption(session.page)
    return session


def test_image_and_control_survive_a_reload(own):
    page = own.page
    page.locator(PILL).first.click()
    page.get_by_role("button", name="Rename region 1").click(force=True)
    page.keyboard.type("seal")
    page.keyboard.press("Enter")
    page.get_by_label("Word the caption must not say").fill("sandy")
    page.keyboard.press("Enter")
    wait_for_caption(page)
    before = caption_text(page), control_boxes(page), chip_names(page)
    assert "seal" in before[0]
    wait_until_saved(page)
    page.reload()
    wait_for_caption(page)
    assert (caption_text(page), control_boxes(page), chip_names(page)) == before
    expect(page.get_by_role("button", name="Remove “sandy”")).to_be_visible()
    page.get_by_role("button", name="Undo").click()  # the undo history survives too
    expect(page.get_by_role("button", name="Remove “sandy”")).to_have_count(0)
    assert page.url.rstrip("/") == own.address, "the address is no link to the image"


def test_reload_of_a_sample_keeps_one_image(open_page):
    page = open_sample(open_page())
    before = caption_text(page)
    wait_until_saved(page)
    page.reload()
    wait_for_caption(page)
    assert caption_text(page) == before
    page.get_by_role("button", name="All images", exact=True).click()
    expect(page.locator(CARD)).to_have_count(1)


def test_back_and_forward_stay_in_the_studio(own):
    page = own.page
    before = caption_text(page)
    page.go_back()
    expect(page.locator(".start")).to_be_visible()
    expect(page.locator(CARD)).to_contain_text(before)
    page.go_forward()
    wait_for_caption(page)
    assert caption_text(page) == before
    page.get_by_role("button", name="All images", exact=True).click()
    page.locator(".sample").first.click()
    expect(page.locator(f"{STRIP}[aria-current]")).to_have_accessible_name(re.compile("^otters.jpg"))
    page.go_back()
    expect(page.locator(CARD)).to_have_count(2)
    page.go_back()
    expect(page.locator(f"{STRIP}[aria-current]")).to_have_accessible_name(re.compile("^mine.jpg"))


def test_own_images_have_a_file_instead_of_a_link(own, open_page):
    page = own.page
    clear(page)
    page.locator(PILL).nth(1).click()
    wait_for_caption(page)
    expect(page.get_by_role("button", name="Copy link")).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save regions").click()
    assert download.value.suggested_filename == "mine-regions.json"
    text = Path(download.value.path()).read_bytes()
    content = json.loads(text)
    assert (content["image"]["name"], content["control"]) == ("mine.jpg", [control_boxes(page)])
    regions = {"name": "mine-regions.json", "mimeType": "application/json", "buffer": text}

    clear(page)
    page.get_by_role("button", name="All images", exact=True).click()
    page.locator("#file").set_input_files([regions])  # the image is in the list
    wait_for_caption(page)
    assert control_boxes(page) == content["control"][0]

    other = open_page(None)
    mock_api(other.page)
    other.go()
    other.page.locator("#file").set_input_files([regions])  # elsewhere, it is not
    expect(other.page.locator(".pending-control")).to_contain_text("one region of the image mine.jpg")
    other.page.locator("#file").set_input_files([image_file("renamed.jpg")])
    wait_for_caption(other.page)
    assert control_boxes(other.page) == content["control"][0]


@pytest.mark.parametrize("content", ["no JSON", "[]", "{}", '{"image": {"id": "a", "width": 1, "height": 1}}'])
def test_files_without_regions_are_reported(open_page, content):
    page = open_page().page
    file = {"name": "x.json", "mimeType": "application/json", "buffer": content.encode()}
    page.locator("#file").set_input_files([file])
    expect(page.get_by_role("alert")).to_contain_text("x.json has no regions")


def test_several_images(open_page):
    session = open_page(None)
    page = session.page
    mock_api(page)
    session.go()
    page.locator("#file").set_input_files([image_file(f"{name}.jpg") for name in ("one", "two", "three")])
    expect(page.locator(f"{STRIP}[data-ready]")).to_have_count(3)  # captioned without being opened
    expect(page.locator(".export-all")).to_contain_text("3 of 3 captions")
    clear(page)
    page.locator(PILL).nth(3).click()
    wait_for_caption(page)
    assert caption_text(page) == "the grass"
    page.locator(STRIP).nth(1).click()
    wait_for_caption(page)
    assert (caption_text(page), page.locator(CHIP).count()) == ("a brown otter rests on a sandy rock", 2)
    session.screenshot("several-images")

    with page.expect_download() as table:
        page.get_by_role("button", name="as a table (CSV)").click()
    rows = Path(table.value.path()).read_text().splitlines()
    expected = [f"{name}.jpg,{caption_text(page)}" for name in ("two", "three")]
    assert rows == ["image,caption", "one.jpg,the grass", *expected]
    with page.expect_download() as full:
        page.get_by_role("button", name="with their regions (JSON)").click()
    assert [each["image"]["name"] for each in json.loads(Path(full.value.path()).read_bytes())] == [
        "one.jpg", "two.jpg", "three.jpg",
    ]  # fmt: skip
    page.get_by_role("button", name="Copy the captions of all images").click()
    expect(page.locator("#announcement.toast")).to_have_text("3 captions copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith("one.jpg\tthe grass\ntwo.jpg\t")

    page.locator(STRIP).first.click()
    wait_for_caption(page)
    assert caption_text(page) == "the grass"
    page.get_by_role("button", name="All images", exact=True).click()
    page.get_by_role("button", name="Remove two.jpg").click()
    expect(page.locator(CARD)).to_have_count(2)
    wait_until_saved(page)
    page.reload()
    expect(page.locator(CARD)).to_have_count(2)
    page.get_by_role("button", name="Remove all").click()
    expect(page.locator(CARD)).to_have_count(0)


def test_images_are_added_to_the_list_by_the_strip_and_unreadable_ones_are_named(open_page):
    session = open_page(None)
    page = session.page
    mock_api(page)
    session.go()
    broken = {"name": "broken.jpg", "mimeType": "image/jpeg", "buffer": b"no image"}
    page.locator("#file").set_input_files([image_file("one.jpg"), broken, image_file("two.jpg")])
    expect(page.get_by_role("alert")).to_contain_text("broken.jpg is not an image")
    expect(page.locator(STRIP)).to_have_count(2)
    page.locator("#file").set_input_files([image_file("three.jpg")])
    expect(page.locator(STRIP)).to_have_count(3)
    expect(page).to_have_title("three.jpg · Show, Control and Tell")


def test_without_storage_the_page_works(open_page):
    session = open_page(None)
    page = session.page
    mock_api(page)
    page.add_init_script("Object.defineProperty(window, 'indexedDB', { value: undefined })")
    session.go()
    page.locator("#file").set_input_files([image_file("mine.jpg")])
    wait_for_caption(page)
    page.get_by_role("button", name="All images", exact=True).click()
    expect(page.get_by_text("This browser does not keep images")).to_be_visible()
