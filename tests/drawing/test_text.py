import pytest

from sct.drawing.palette import INK, PALETTE, PAPER
from sct.drawing.text import Paragraph, TextSpan, draw_paragraphs
from sct.errors import InputError

RED, BLUE = PALETTE[:2]


def row_runs(sheet, color):
    """Runs of rows that hold the colour: [first, last] of each."""
    runs = []
    for y in range(sheet.height):
        if any(sheet.getpixel((x, y)) == color for x in range(sheet.width)):
            if runs and runs[-1][1] == y - 1:
                runs[-1][1] = y
            else:
                runs.append([y, y])
    return runs


def columns_with(sheet, color):
    return [x for x in range(sheet.width) if any(sheet.getpixel((x, y)) == color for y in range(sheet.height))]


@pytest.mark.parametrize(
    "paragraphs",
    [
        pytest.param([], id="no paragraph"),
        pytest.param([Paragraph(())], id="no words"),
        pytest.param([Paragraph((TextSpan(" "),))], id="only a space"),
    ],
)
def test_empty_text(paragraphs):
    sheet = draw_paragraphs(paragraphs, 100)
    assert sheet.width == 100
    assert sheet.getcolors() == [(sheet.width * sheet.height, PAPER)]


def test_chunk_is_white_on_its_color():
    sheet = draw_paragraphs([Paragraph((TextSpan("a dog", RED, "1"), TextSpan("runs")))], 400)
    field = columns_with(sheet, RED)
    assert field == list(range(field[0], field[-1] + 1)), "spaces are coloured too"
    assert len(row_runs(sheet, RED)) == 1
    assert PAPER in {sheet.getpixel((x, 32)) for x in range(field[0] + 4, field[-1] - 4)}
    assert min(columns_with(sheet, INK)) > field[-1]


def test_chunk_that_fits_on_a_line_is_not_broken():
    start = TextSpan("word " * 7)
    sheet = draw_paragraphs([Paragraph((start, TextSpan("a brown dog", RED)))], 420)
    assert len(row_runs(sheet, RED)) == 1
    assert row_runs(sheet, RED)[0][0] > row_runs(sheet, INK)[0][1], "it starts a line"


def test_chunk_longer_than_a_line_is_broken():
    sheet = draw_paragraphs([Paragraph((TextSpan("a very brown dog " * 4, RED, "1"),))], 300)
    assert len(row_runs(sheet, RED)) > 2


@pytest.mark.parametrize("color", [None, RED])
@pytest.mark.parametrize("word", ["o" * 100, "W" * 100, "x"])
def test_long_words_stay_within_the_margin(word, color):
    sheet = draw_paragraphs([Paragraph((TextSpan(word, color, "12"),))], 120)
    margin = sheet.crop((112, 0, 120, sheet.height))
    assert margin.getcolors() == [(margin.width * margin.height, PAPER)]


def test_width_below_one_letter_terminates():
    assert draw_paragraphs([Paragraph((TextSpan("dog", RED, "1"),), "title")], 20).width == 20


def test_titles_and_paragraphs_increase_the_height():
    paragraph = Paragraph((TextSpan("a dog", BLUE),))
    one = draw_paragraphs([paragraph], 200).height
    titled = draw_paragraphs([paragraph._replace(title="a title")], 200).height
    long_title = draw_paragraphs([paragraph._replace(title="a title " * 10)], 200).height
    two = draw_paragraphs([paragraph, paragraph], 200).height
    assert one < titled < long_title
    assert one < two


@pytest.mark.parametrize(
    "text", ["\0", "\x1b[31mred", "\u202egod", "\ud800", "\U0001f600", "\u05d0\u05d1", "a\u0301" * 50]
)
def test_odd_characters_are_drawn(text):
    assert draw_paragraphs([Paragraph((TextSpan(f"a {text}", RED, "1"),), text)], 100).width == 100


def test_captions_without_end_are_refused():
    paragraphs = [Paragraph((TextSpan("a dog " * 1000),))] * 100
    with pytest.raises(InputError, match="got 100 captions that take more than 16,000 pixels in a drawing"):
        draw_paragraphs(paragraphs, 640)
