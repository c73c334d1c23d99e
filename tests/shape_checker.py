"""The type checker that tests put on every annotated function: whole numbers pass for real ones, as PEP 484 has it."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
