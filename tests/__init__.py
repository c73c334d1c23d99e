"""Tests, mirroring ``src/sct``."""

from tests import shape_checker as shape_checker  # the jaxtyping hook looks it up as an attribute of this package
