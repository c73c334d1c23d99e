"""Limits on input, all in one place. A larger input is refused with an ``InputError`` that names its limit.

They are far above anything of the field and exist so that a mistake or a hostile file ends in one line, within bounded
memory and time. ``docs/limits.md`` lists them.
"""

MAX_TOML_BYTES = 1 << 20
"""Size of a recipe or a config file."""
MAX_TEXT_BYTES = 4 << 30
"""Size of a text file that is read as a whole: JSON annotations, vocabularies."""
MAX_LINE_BYTES = 16 << 20
"""Length of one line of a text file: a record of JSONL, a row of word vectors."""
