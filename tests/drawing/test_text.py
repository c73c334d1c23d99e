import pytest

from sct.drawing.palette import INK, PALETTE, PAPER
from sct.drawing.text import Paragraph, TextSpan, draw_paragraphs

RED, BLUE = PALETTE[:2]


def rows_of(sheet, colour):
    """Runs of rows that hold the colour: [first, last] of each."""
    runs = []
    for y in range(sheet.height):
        if any(sheet.getpixel((x, y)) == colour for x in range(sheet.width)):
            if runs and runs[-1][1] == y - 1:
                runs[-1][1] = y
            else:
                runs.append([y, y])
    return runs


def columns_of(sheet, colour):
    return [x for x in range(sheet.width) if any(sheet.getpixel((x, y)) == colour for y in range(sheet.height))]


@pytest.mark.parametrize(
    "paragraphs",
    [
        pytest.param([], id="no paragraph"),
        pytest.param([Paragraph(())], id="no words"),
        pytest.param([Paragraph((TextSpan(" "),))], id="nothing but space"),
    ],
)
def test_nothing_to_write(paragraphs):
    sheet = draw_paragraphs(paragraphs, 100)
    assert sheet.width == 100
    assert sheet.getcolors() == [(sheet.width * sheet.height, PAPER)]


def test_words_of_a_chunk_stand_white_on_one_field_of_its_colour():
    sheet = draw_paragraphs([Paragraph((TextSpan("a dog", RED, "1"), TextSpan("runs")))], 400)
    field = columns_of(sheet, RED)
    assert field == list(range(field[0], field[-1] + 1)), "the space between its words is coloured, too"
    assert len(rows_of(sheet, RED)) == 1
    assert PAPER in {sheet.getpixel((x, 32)) for x in range(field[0] + 4, field[-1] - 4)}
    assert min(columns_of(sheet, INK)) > field[-1]


def test_a_chunk_that_fits_on_a_line_is_not_broken():
    start = TextSpan("word " * 7)
    sheet = draw_paragraphs([Paragraph((start, TextSpan("a brown dog", RED)))], 420)
    assert len(rows_of(sheet, RED)) == 1
    assert rows_of(sheet, RED)[0][0] > rows_of(sheet, INK)[0][1], "it begins a line"


def test_a_chunk_longer_than_a_line_is_broken():
    sheet = draw_paragraphs([Paragraph((TextSpan("a very brown dog " * 4, RED, "1"),))], 300)
    assert len(rows_of(sheet, RED)) > 2


@pytest.mark.parametrize("colour", [None, RED])
@pytest.mark.parametrize("word", ["o" * 100, "W" * 100, "x"])
def test_no_word_leaves_the_sheet(word, colour):
    sheet = draw_paragraphs([Paragraph((TextSpan(word, colour, "12"),))], 120)
    margin = sheet.crop((112, 0, 120, sheet.height))
    assert margin.getcolors() == [(margin.width * margin.height, PAPER)]


def test_a_sheet_too_narrow_for_a_letter_still_ends():
    assert draw_paragraphs([Paragraph((TextSpan("dog", RED, "1"),), "title")], 20).width == 20


def test_a_title_and_each_further_paragraph_take_room():
    paragraph = Paragraph((TextSpan("a dog", BLUE),))
    one = draw_paragraphs([paragraph], 200).height
    titled = draw_paragraphs([paragraph._replace(title="a title")], 200).height
    long_title = draw_paragraphs([paragraph._replace(title="a title " * 10)], 200).height
    two = draw_paragraphs([paragraph, paragraph], 200).height
    assert one < titled < long_title
    assert one < two
