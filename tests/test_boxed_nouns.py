"""Shares of boxed nouns (``benchmarks/release/boxed_nouns.py``)."""

import sys
import tomllib

import pytest

from benchmarks.release import boxed_nouns

ANNOTATION = """<annotation>
  <object><name>1</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object>
  <object><name>2</name><scene>1</scene><nobndbox>1</nobndbox></object>
</annotation>
"""
SENTENCE = "[/EN#1/people A man] stands in [/EN#2/scene a dark Kitchen] with [/EN#1/people his dog] .\n"


@pytest.fixture
def flickr30k(tmp_path):
    """Images in whose captions "man" and "dog" always have a box, and "kitchen" never, but in one image."""
    names = [f"{number:02}" for number in range(boxed_nouns.MIN_USES)]
    for folder in ("Annotations", "Sentences"):
        (tmp_path / folder).mkdir()
    (tmp_path / "train.txt").write_text("\n".join(names), encoding="utf-8")
    for name in names:
        sentence = SENTENCE.replace("EN#2", "EN#1") if name == "00" else SENTENCE
        (tmp_path / "Annotations" / f"{name}.xml").write_text(ANNOTATION, encoding="utf-8")
        (tmp_path / "Sentences" / f"{name}.txt").write_text(sentence, encoding="utf-8")
    return tmp_path


def run(flickr30k, monkeypatch) -> dict[str, float]:
    out = flickr30k / "boxed_nouns.toml"
    monkeypatch.setattr(sys, "argv", ["boxed_nouns.py", str(flickr30k), str(out)])
    boxed_nouns.main()
    return tomllib.loads(out.read_text("utf-8"))


def test_nouns_that_people_seldom_box_are_listed(flickr30k, monkeypatch):
    assert run(flickr30k, monkeypatch) == {"kitchen": round(1 / boxed_nouns.MIN_USES, 2)}


def test_rare_nouns_are_not(flickr30k, monkeypatch):
    monkeypatch.setattr(boxed_nouns, "MIN_USES", boxed_nouns.MIN_USES + 1)
    assert run(flickr30k, monkeypatch) == {}
