"""Scores of shards equal those of all predictions at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sct.errors import InputError
from sct.evaluation.predictions import Prediction
from sct.evaluation.scoring import NounLexicon, score_predictions
from sct.evaluation.shard_scores import ShardScores
from sct.evaluation.sharded_scores import count_references, merge_scores, score_shard
from sct.language.noun_table import NounTable
from sct.metrics.document_frequencies import PartialDocumentFrequencies
from sct.metrics.interface import MetricUnavailable
from sct.metrics.java import find_java
from sct.metrics.meteor import find_meteor_jar
from sct.metrics.spice import find_spice_jars

WORDS = ["a", "the", "dog", "cat", "man", "runs", "in", "snow", "red"]
NAMES = ("B1", "B2", "B3", "B4", "R", "C", "NW", "IoU")
NOUNS = NounLexicon(table=NounTable.from_vectors(["dog", "cat", "man"], np.eye(3) + 0.3, "toy"))
CAPTIONS = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
LINES = st.lists(
    st.builds(
        lambda prediction, references, others: Prediction(
            "", None, prediction, tuple(references), (prediction, *others) if others else ()
        ),
        CAPTIONS,
        st.lists(CAPTIONS, min_size=1, max_size=3),
        st.lists(CAPTIONS, max_size=3),
    ),
    min_size=1,
    max_size=8,
)


def make_lines(num_lines, *, seed=1, several=False):
    random = np.random.default_rng(seed)

    def caption():
        return " ".join(random.choice(WORDS, random.integers(1, 9)))

    lines = []
    for row in range(num_lines):
        captions = tuple(caption() for _ in range(random.integers(1, 4)))
        references = tuple(caption() for _ in range(random.integers(1, 4)))
        lines.append(Prediction(f"{row}.jpg", None, captions[0], references, captions if several else ()))
    return lines


def score_shards(shards, names=NAMES, **options):
    counted = [count_references(lines, diversity=options.get("diversity", False)) for lines in shards]
    frequencies = PartialDocumentFrequencies.merge(counted).finish()
    return [score_shard(lines, names, frequencies=frequencies, nouns=NOUNS, **options) for lines in shards]


def assert_equal(found, expected):
    first, second = flatten(found.as_dict()), flatten(expected.as_dict())
    assert list(first) == list(second)
    for name, value in second.items():
        close = pytest.approx(value, rel=1e-12, abs=1e-12) if isinstance(value, float) else value
        assert first[name] == close, name
    assert found.unavailable == expected.unavailable


def flatten(scores):
    parts = {name: value for name, value in scores.items() if isinstance(value, dict)}
    flat = {(part, name): value for part, values in parts.items() for name, value in values.items()}
    return {name: value for name, value in scores.items() if name not in parts} | flat


@settings(max_examples=60)
@given(lines=LINES, data=st.data())
def test_any_partition_equals_the_whole(lines, data):
    shard_of = data.draw(st.lists(st.integers(0, 3), min_size=len(lines), max_size=len(lines)))
    shards = [[line for line, shard in zip(lines, shard_of, strict=True) if shard == each] for each in range(4)]
    parts = score_shards(shards)
    merged = merge_scores(parts)
    assert_equal(merged, score_predictions(lines, NAMES, nouns=NOUNS))
    assert merge_scores(reversed(parts)).as_dict() == merged.as_dict()


def test_saved_shards_equal_the_whole(tmp_path):
    lines = make_lines(40, several=True)
    for number, part in enumerate(score_shards([lines[:7], [], lines[7:9], lines[9:]])):
        part.save(tmp_path / f"{number}.safetensors")
    loaded = [ShardScores.load(tmp_path / f"{number}.safetensors") for number in (3, 1, 0, 2)]
    expected = score_predictions(lines, NAMES, nouns=NOUNS)
    assert_equal(merge_scores(loaded), expected)
    for name in NAMES:
        rows = np.concatenate([loaded[number].per_caption[name] for number in (2, 0)])
        whole = np.concatenate([expected.per_caption[name][:7], expected.per_caption[name][9:]])
        assert rows == pytest.approx(whole, abs=1e-12)


def test_shards_without_several_captions_count_for_the_oracle():
    lines = make_lines(10) + make_lines(10, seed=2, several=True)
    expected = score_predictions(lines, NAMES, nouns=NOUNS)
    assert expected.oracle is not None
    assert_equal(merge_scores(score_shards([lines[:10], lines[10:]])), expected)
    alone = merge_scores(score_shards([lines[:4], lines[4:10]]))
    assert alone.oracle is alone.diversity is None


@pytest.mark.parametrize("reference", [False, True])
def test_diversity_merges_lines_within_a_shard(reference):
    lines = [replace(line, image=f"{row % 5}.jpg") for row, line in enumerate(make_lines(20))]
    lines = [replace(line, references=lines[int(line.image[0])].references) for line in lines]
    shards = [[line for line in lines if line.image in images] for images in ({"0.jpg", "3.jpg"}, {"1.jpg"})]
    shards.append([line for line in lines if line.image in {"2.jpg", "4.jpg"}])
    expected = score_predictions(lines, NAMES, nouns=NOUNS, diversity=True, reference=reference)
    assert_equal(merge_scores(score_shards(shards, diversity=True, reference=reference)), expected)


def test_error_about_an_image_in_two_shards():
    shards = [make_lines(3), make_lines(1, seed=2), make_lines(2, seed=3)]
    shards[1] = [replace(shards[1][0], image="9.jpg")]
    with pytest.raises(InputError, match="numbers 1 and 3, expected them in one shard"):
        merge_scores(score_shards(shards, diversity=True))
    merge_scores(score_shards(shards))  # separate lines otherwise


def test_truncated_controls_are_counted():
    lines = [replace(line, num_dropped_sets=row % 2) for row, line in enumerate(make_lines(6))]
    merged = merge_scores(score_shards([lines[:3], lines[3:]], ["R"]))
    assert merged.as_dict() == score_predictions(lines, ["R"]).as_dict()
    assert merged.as_dict()["truncated_controls"] == 3


@pytest.mark.parametrize(("name", "find_jars"), [("M", find_meteor_jar), ("S", find_spice_jars)])
def test_java_metrics(name, find_jars):
    try:
        find_java(), find_jars()
    except MetricUnavailable as error:
        pytest.skip(str(error))
    lines = make_lines(30, several=True)
    lines[4] = replace(lines[4], prediction="a dog", references=("a dog",))  # one chunk that METEOR does not count
    parts = score_shards([lines[:3], lines[3:9], lines[9:]], [name])
    assert_equal(merge_scores(parts), score_predictions(lines, [name]))


def test_metric_that_could_not_run_on_a_shard():
    lines = make_lines(6)
    first = score_shards([lines[:3]], ["R", "B4"])[0]
    second = replace(score_shards([lines[3:]], ["R", "B4"])[0], unavailable={"R": "no Java"})
    second = replace(second, sums={"B4": second.sums["B4"]}, settings=first.settings)
    merged = merge_scores([first, second])
    assert merged.scores["R"] is None
    assert merged.unavailable == {"R": "no Java"}
    assert merged.scores["B4"] == score_predictions(lines, ["B4"]).scores["B4"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"names": ["R"]}, r"metrics \('C',\) and \('R',\)", id="metrics"),
        pytest.param({"reference": True}, "reference False and True", id="mode"),
        pytest.param({"lines": 5}, "frequencies '[0-9a-f]{64}' and", id="document frequencies"),
    ],
)
def test_error_about_shards_of_other_settings(options, message):
    lines = make_lines(4)
    [first] = score_shards([lines], ["C"])
    [second] = score_shards([make_lines(options.pop("lines", 4))], **{"names": ["C"], **options})
    with pytest.raises(InputError, match=message):
        merge_scores([first, second])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"names": ["C"]}, "no document frequencies for CIDEr-D", id="CIDEr-D"),
        pytest.param({"names": ["R"], "several": True}, "no document frequencies for self-CIDEr", id="self-CIDEr"),
        pytest.param({"names": ["NW"], "reference": True}, "no noun table", id="nouns of all references"),
    ],
)
def test_error_about_what_needs_all_shards(options, message):
    lines = make_lines(2, several=options.pop("several", False))
    with pytest.raises(InputError, match=message):
        score_shard(lines, **options, frequencies=None)


def test_error_without_captions():
    assert count_references([]).table.num_documents == 0
    with pytest.raises(InputError, match="got no captions"):
        merge_scores([score_shard([], ["R"], frequencies=None)])
    with pytest.raises(InputError, match="got no documents"):
        count_references([]).finish()
