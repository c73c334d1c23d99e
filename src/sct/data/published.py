"""The paper's Table 1: figures to compare with."""

from typing import NamedTuple


class Table1Column(NamedTuple):
    """One column of Table 1."""

    captions: int
    noun_chunks: int
    chunks_per_caption: float
    classes: int


TABLE_1 = {
    "COCO Entities": {
        "train": Table1Column(545_202, 1_518_667, 2.79, 1_330),
        "val": Table1Column(7_818, 20_787, 2.66, 725),
        "test": Table1Column(7_797, 20_596, 2.64, 730),
    },
    "Flickr30k Entities": {
        "train": Table1Column(144_256, 416_018, 2.88, 1_026),
        "val": Table1Column(5_053, 14_626, 2.89, 465),
        "test": Table1Column(4_982, 14_556, 2.92, 458),
    },
}
