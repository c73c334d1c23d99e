"""Table 1 of small files in the format of Flickr30k Entities, and of two datasets."""

import pytest

from sct.cli.main import run
from sct.data.prepare import PrepareConfig, prepare
from sct.errors import InputError
from sct.reproduction.evaluate_rows import reproduce
from sct.reproduction.plan import ReproductionConfig
from sct.reproduction.published import TABLES
from sct.reproduction.report import to_html, to_markdown
from tests.factories import make_noun_dataset
from tests.reproduction.helpers import RECIPES, discard

SENTENCES = """\
[/EN#1/people A man] and [/EN#1/people the man 's] [/EN#2/animals dogs] in [/EN#3/scene a park] .
[/EN#0/notvisual It] is [/EN#3/scene a park] .
"""
ANNOTATIONS = """<annotation><size><width>100</width><height>80</height></size>
<object><name>1</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>30</xmax><ymax>60</ymax></bndbox></object>
<object><name>2</name><bndbox><xmin>40</xmin><ymin>9</ymin><xmax>50</xmax><ymax>60</ymax></bndbox></object>
<object><name>3</name><scene>1</scene><nobndbox>1</nobndbox></object></annotation>"""


@pytest.fixture(scope="module")
def flickr30k(tmp_path_factory):
    """Dataset of two training images and one to validate, each with a caption without a box."""
    root = tmp_path_factory.mktemp("flickr30k")
    for folder in ("Sentences", "Annotations"):
        (root / folder).mkdir()
    for image_id in "123":
        (root / "Sentences" / f"{image_id}.txt").write_text(SENTENCES)
        (root / "Annotations" / f"{image_id}.xml").write_text(ANNOTATIONS)
    (root / "train.txt").write_text("1\n2\n")
    (root / "val.txt").write_text("3\n")
    out = tmp_path_factory.mktemp("prepared") / "flickr30k"
    prepare(root, out, PrepareConfig(workers=1))
    return out


def make_config(tmp_path, data, *more_data, **options):
    return ReproductionConfig(data=data, more_data=more_data, runs=tmp_path / "runs", recipes=RECIPES, **options)


def test_flickr30k_entities(flickr30k, tmp_path):
    made = reproduce(TABLES["table1"], make_config(tmp_path, flickr30k), discard)
    measured = {key.system: row.runs[0].figures for key, row in made.results.items() if row.is_measured}
    assert measured["train"] == {
        "captions": 2,
        "noun chunks": 6,
        "chunks per caption": 3,
        "classes": 2,
        "% associated": 100,
    }
    assert measured["val"]["noun chunks"] == 3
    assert made.differences[:3] == (
        "flickr30k, train: captions -100.0 %: 2 images (paper: 29,000), dropped 2 of 4 = 50.00 % "
        "(paper: 744 of 145,000 = 0.51 %): 2 with no phrase with a box",
        "flickr30k, train: noun chunks -100.0 %: 3.000 per caption (paper: 2.884), phrases with a box, as in the paper",
        "flickr30k, train: classes -99.8 %: head nouns of phrases; the paper's are classes of the detections that "
        "overlap the boxes most, of 1,600",
    )
    assert len(made.differences) == 6
    for text in (to_markdown(made, "sct"), to_html(made, "sct")):
        assert "2 with no phrase with a box" in text


def test_two_datasets(flickr30k, tmp_path):
    coco = make_noun_dataset(tmp_path / "coco", source="COCO layout")
    made = reproduce(TABLES["table1"], make_config(tmp_path, flickr30k, coco), discard)
    assert [f"{key.data} {key.system}" for key, row in made.results.items() if row.is_measured] == [
        "coco train",
        "coco val",
        "flickr train",
        "flickr val",
    ]
    assert "coco, val: classes -99.4 %: regions of this dataset have 5 classes" in "\n".join(made.differences)


def test_classes_of_detections_are_nouns_that_the_encoder_names(flickr30k, tmp_path):
    """Those of the regions are fewer: each has its most probable class only."""
    coco = make_noun_dataset(tmp_path / "coco", source="COCO layout", settings={"detections_of_encoder": "0"})
    made = reproduce(TABLES["table1"], make_config(tmp_path, flickr30k, coco), discard)
    assert "classes -99.4 %: classes of human boxes, and nouns that the vision encoder names" in "\n".join(
        made.differences
    )


def test_two_datasets_for_the_same_of_the_paper(flickr30k, tmp_path):
    with pytest.raises(InputError, match=r"both substitute for Flickr30k Entities: give one of them"):
        reproduce(TABLES["table1"], make_config(tmp_path, flickr30k, flickr30k), discard)


def test_two_datasets_for_another_table(flickr30k, tmp_path):
    with pytest.raises(InputError, match=r"got several datasets, but table3 is about one: give --data once"):
        reproduce(TABLES["table3"], make_config(tmp_path, flickr30k, flickr30k, train=False), discard)


def test_command(flickr30k, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coco = make_noun_dataset(tmp_path / "coco", source="COCO layout")
    assert run(["reproduce", "table1", "--data", str(flickr30k), "--data", str(coco), "--recipes", str(RECIPES)]) == 0
    printed = capsys.readouterr().out
    assert "4 of 6 rows were measured on coco and flickr30k." in printed
    assert f"sct reproduce table1 --data {flickr30k} --data {coco} --runs" in printed
