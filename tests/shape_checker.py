"""Type checker of every annotated function in tests: beartype, with int accepted for float as in PEP 484."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
