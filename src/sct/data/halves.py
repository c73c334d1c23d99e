"""The two halves of a validation split: settings are selected on one, results reported on the other."""

import hashlib

from sct.regions.image_keys import image_key


def in_report_half(image_id: str) -> bool:
    """Whether results are reported on the image; on the others of its split, settings are selected.

    By the parity of the SHA-256 of its key, so that neither the order of images nor the other images matter.

    >>> [in_report_half(image_id) for image_id in ("1001773457_577c3a7d70.jpg", "1001773457_577c3a7d70", "42")]
    [False, False, True]
    """
    return hashlib.sha256(image_key(image_id).encode("utf-8")).digest()[-1] % 2 == 1
