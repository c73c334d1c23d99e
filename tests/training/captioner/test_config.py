"""Captioner recipes: strict keys and values, conflicts, round trips and fingerprints."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.errors import InputError
from sct.training import config
from sct.training.captioner.config import (
    CaptionerRecipe,
    DeviceConfig,
    ExamplesConfig,
    ModelConfig,
    ObjectiveConfig,
    OptimizerConfig,
)

FOLDER = Path(__file__).parents[3] / "recipes"
RECIPES = sorted(path for path in FOLDER.rglob("*.toml") if path.parent.name not in ("sorter", "vision"))


@pytest.fixture
def write(tmp_path):
    def write_recipe(text: str) -> Path:
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_recipe


def test_empty_file_needs_data_only(write):
    with pytest.raises(InputError, match=r"mine\.toml: data is missing: .*data=DIR"):
        CaptionerRecipe.load(write(""))
    assert CaptionerRecipe.load(write(""), ["data=d"]) == CaptionerRecipe(data="d", out="runs/mine")


def test_paper_recipes_are_the_paper_as_printed():
    words, cider, nouns = (
        CaptionerRecipe.load(FOLDER / "paper" / f"{stage}.toml") for stage in ("cross_entropy", "cider", "cider_and_nw")
    )
    assert [recipe.objective.stage for recipe in (words, cider, nouns)] == ["cross_entropy", "cider", "cider_and_nw"]
    for recipe in (words, cider, nouns):
        assert (recipe.batch_size, recipe.patience, recipe.val_beam_size) == (100, 5, 5)
        assert (recipe.optimizer.clip_norm, recipe.optimizer.label_smoothing) == (0, 0)
    assert (words.optimizer.learning_rate, words.optimizer.decay, words.optimizer.decay_every) == (5e-4, 0.8, 1)
    assert words.objective.shift_weight == pytest.approx(0.8 / 0.2)
    assert (words.model.word_size, words.model.hidden_size, words.model.attention_size) == (1000, 1000, 512)
    assert (words.model.mode, words.model.end_slot) == ("paper", False)
    assert (words.examples.gate_targets, words.examples.fill_empty_sets) == ("every_chunk", True)
    for recipe in (cider, nouns):
        assert recipe.start == f"{words.out}/best", "both rewards after cross-entropy"
        assert (recipe.optimizer.learning_rate, recipe.optimizer.decay_every) == (5e-5, 0)
        assert (recipe.objective.baseline, recipe.objective.num_samples) == ("greedy", 1)
        assert (recipe.objective.reward_eos, recipe.objective.center_advantage) == (False, False)


def test_departures_from_the_paper_are_defaults_with_names():
    recipe = CaptionerRecipe(data="d", out="o")
    assert (recipe.model.end_slot, recipe.objective.reward_eos, recipe.objective.center_advantage) == (True,) * 3
    assert (recipe.optimizer.clip_norm, recipe.objective.cider_documents) == (5, "image")


def test_overrides_replace_values_of_the_file(write):
    path = write('data = "d"\nmax_seconds = 60\n[optimizer]\nlearning_rate = 5e-5\n[objective]\nstage = "cider"\n')
    recipe = CaptionerRecipe.load(
        path, ["from=a=b", "objective.num_samples=2", "objective.num_samples=5", "out=12", "objective.shuffle=false"]
    )
    assert recipe == CaptionerRecipe(
        data="d",
        out="12",
        start="a=b",
        max_seconds=60.0,
        optimizer=OptimizerConfig(learning_rate=5e-5),
        objective=ObjectiveConfig(stage="cider", num_samples=5, shuffle=False),
    )


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_recipe_files_load(path):
    text = path.read_text(encoding="utf-8")
    starts_from_bundle = re.search(r"\bfrom ?= ?", text) is not None
    recipe = CaptionerRecipe.load(path, ["from=runs/x/best"] if starts_from_bundle else [])
    name = path.relative_to(FOLDER).with_suffix("").as_posix()
    assert recipe.out == f"runs/{name}"
    assert re.search(rf"sct train (recipes/)?{name}(\.toml)?\b", text)  # the header names the command
    assert starts_from_bundle == (recipe.objective.stage != "cross_entropy")


def test_all_stages_have_recipes():
    stages = ("cross_entropy", "cider", "cider_and_nw")
    folders = ("coco_layout", "flickr8k", "flickr8k_images", "default", "reference", "paper")
    names = {f"{folder}/{stage}.toml" for folder in folders for stage in stages}
    assert names | {"tiny.toml"} <= {path.relative_to(FOLDER).as_posix() for path in RECIPES}


def test_reference_recipes_are_the_authors_settings():
    words, cider, nouns = (
        CaptionerRecipe.load(FOLDER / "reference" / f"{stage}.toml", ["from=x"])
        for stage in ("cross_entropy", "cider", "cider_and_nw")
    )
    assert [recipe.objective.stage for recipe in (words, cider, nouns)] == ["cross_entropy", "cider", "cider_and_nw"]
    for recipe in (words, cider, nouns):
        assert (recipe.seed, recipe.batch_size, recipe.patience, recipe.optimizer.clip_norm) == (1234, 100, 5, 0)
        assert (recipe.objective.shuffle, recipe.objective.count_padding) == (False, True)
        assert recipe.model.mode == "reference"
        assert recipe.max_epochs > 100  # ended by patience
    assert (words.optimizer.learning_rate, words.optimizer.decay, words.optimizer.decay_every) == (5e-4, 0.8, 3)
    for recipe in (cider, nouns):
        assert (recipe.optimizer.learning_rate, recipe.optimizer.decay_every) == (5e-5, 0)
        assert (recipe.objective.baseline, recipe.objective.cider_documents) == ("epoch_greedy", "caption")
        assert (recipe.objective.collapse_repeats, recipe.objective.center_advantage) == (True, False)
        assert not recipe.objective.reward_eos
    assert nouns.objective.noun_weight == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("batchsize = 5", "unknown setting 'batchsize': did you mean batch_size?", id="misspelt"),
        pytest.param(
            "[objectiv]\nstage = 'cider'", "unknown setting 'objectiv': did you mean objective", id="misspelt table"
        ),
        pytest.param(
            "[objective]\nstag = 'cider'", "'objective.stag': did you mean objective.stage?", id="misspelt in a table"
        ),
        pytest.param("learning_rate = 1.0", "did you mean optimizer.learning_rate?", id="outside its table"),
        pytest.param(
            "[model]\nnum_samples = 3",
            "'model.num_samples': did you mean objective.num_samples?",
            id="in another table",
        ),
        pytest.param("start = 'x'", "unknown setting 'start'", id="attribute name of from"),
        pytest.param(
            "zzz = 3", "unknown setting 'zzz': expected one of data, out, task, from, seed", id="unlike any key"
        ),
        pytest.param("batch_size = '5'", "batch_size is '5': expected an integer", id="string for a number"),
        pytest.param("batch_size = 5.0", "batch_size is 5.0: expected an integer", id="float for an integer"),
        pytest.param("batch_size = true", "batch_size is True: expected an integer", id="bool for a number"),
        pytest.param("out = 3", "out is 3: expected a string", id="number for a string"),
        pytest.param(
            "objective = 'cider'", "objective is 'cider': expected a table, [objective]", id="string for a table"
        ),
        pytest.param("[out]\nx = 1", "out is {'x': 1}: expected a string", id="table for a string"),
        pytest.param("max_seconds = inf", "max_seconds is inf: expected a number", id="infinity"),
        pytest.param("max_seconds = nan", "max_seconds is nan: expected a number", id="NaN"),
        pytest.param("seed = 99999999999999999999", "seed is an integer of 67 bits: expected", id="beyond 64 bits"),
        pytest.param(f"seed = 0x{'f' * 5000}", "seed is an integer of 20,000 bits", id="beyond any text"),
        pytest.param("seed = [1, 2]", "seed is [1, 2]: expected an integer", id="list"),
        pytest.param(f"seed = {'[' * 9999}", "is nested too deeply", id="deep list"),
        pytest.param(f"{'a.' * 9999}b = 1", "unknown setting 'a'", id="deep tables"),
        pytest.param(f"out = '{'x' * 99999}'", "xx...xx", id="long text"),
        pytest.param('out = "a\\u0000b"', "out is 'a\\x00b': expected a string", id="null character"),
        pytest.param("out = 1979-05-27", "out is datetime.date(1979, 5, 27): expected a string", id="date"),
        pytest.param(
            "[objective]\nstage = 'words'",
            "objective.stage is 'words': expected 'cross_entropy', 'cider' or 'cider_and_nw'",
            id="unknown choice",
        ),
        pytest.param(
            "[objective]\nshuffle = 1", "objective.shuffle is 1: expected true or false", id="number for a bool"
        ),
        pytest.param("batch_size = ", "is not valid TOML", id="invalid TOML"),
    ],
)
def test_rejects_invalid_files(write, text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        CaptionerRecipe.load(write(f"{text}\n"), ["data=d"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        pytest.param("", "got '', expected key=value", id="empty"),
        pytest.param("batch_size", "got 'batch_size', expected key=value", id="no value"),
        pytest.param("=5", "unknown setting ''", id="no key"),
        pytest.param("batch_size=", "batch_size is '': expected an integer", id="empty number"),
        pytest.param("batch_size=5.5", "batch_size is '5.5': expected an integer", id="float"),
        pytest.param("max_seconds=1e999", "max_seconds is inf: expected a number", id="infinity"),
        pytest.param("objective.shuffle=yes", "objective.shuffle is 'yes': expected true or false", id="yes"),
        pytest.param("num_samples=5", "did you mean objective.num_samples?", id="without its table"),
        pytest.param("objective=cider", "objective is a table: name one of its settings", id="table"),
        pytest.param("objective.stage.x=1", "unknown setting 'objective.stage.x'", id="nested too deep"),
    ],
)
def test_rejects_invalid_overrides(write, override, message):
    with pytest.raises(InputError, match=re.escape(message)):
        CaptionerRecipe.load(write('data = "d"'), [override])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param("nowhere.toml", "nowhere.toml does not exist", id="missing"),
        pytest.param(".", "is a folder", id="folder"),
        pytest.param("latin.toml", "is not UTF-8", id="not UTF-8"),
    ],
)
def test_rejects_unreadable_files(tmp_path, path, message):
    (tmp_path / "latin.toml").write_bytes(b'out = "\xe9"')
    with pytest.raises(InputError, match=message):
        CaptionerRecipe.load(tmp_path / path)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        pytest.param(["data="], "data is empty", id="no data"),
        pytest.param(["out="], "out is empty", id="no run directory"),
        pytest.param(["objective.stage=cider"], "from=runs/NAME/cross_entropy/best", id="self-critical from scratch"),
        pytest.param(
            ["objective.stage=cider", "from=x", "objective.baseline=leave_one_out"],
            "objective.num_samples=2 or more",
            id="leave-one-out of one sample",
        ),
        pytest.param(
            ["objective.num_samples=2"], "the stage 'cross_entropy' does not sample", id="samples without sampling"
        ),
        *(
            pytest.param(
                ["objective.stage=cider", "from=x", f"objective.{name}=0.5"],
                f"objective.{name} is 0.5, but the stage 'cider' does not reward nouns",
                id=f"{name} without rewards of nouns",
            )
            for name in ("permuted_share", "named_set_weight", "unsupported_noun_penalty")
        ),
        pytest.param(
            ["objective.stage=cider_and_nw", "from=x", "objective.permuted_share=2"],
            "objective.permuted_share is 2.0: expected a number from 0 to 1",
            id="share above 1",
        ),
        pytest.param(
            [
                "objective.stage=cider_and_nw",
                "from=x",
                "objective.permuted_share=0.5",
                "objective.baseline=epoch_greedy",
            ],
            "objective.permuted_share is 0.5: expected another baseline",
            id="permuted controls with captions of the order of mention as baseline",
        ),
        pytest.param(
            ["objective.stage=cider", "from=x", "objective.teachers=a"],
            "the stage 'cider' does not distil",
            id="teachers in a self-critical stage",
        ),
        pytest.param(["objective.teachers=a,,b"], "which has an empty name", id="teacher without a name"),
        pytest.param(["objective.teacher_weight=-0.1"], "weight is -0.1: expected a number from 0 to 1", id="below 0"),
        pytest.param(["objective.teacher_weight=1.1"], "weight is 1.1: expected a number from 0 to 1", id="above 1"),
        pytest.param(
            ["objective.num_samples=0"], "got objective.num_samples 0, expected an integer from 1", id="no samples"
        ),
        pytest.param(["batch_size=100", "device.devices=3"], "expected a multiple", id="batch not divisible"),
        pytest.param(["batch_size=0"], "got batch_size 0", id="empty batch"),
        pytest.param(["seed=-1"], "got seed -1", id="negative seed"),
        pytest.param(["max_epochs=0"], "got max_epochs 0", id="no epochs"),
        pytest.param(["max_seconds=-1"], "max_seconds is -1.0", id="negative time"),
        pytest.param(
            ["validate_every=0"], "validate_every is 0.0: expected a number above 0", id="no validation interval"
        ),
        pytest.param(["val_beam_size=0"], "got val_beam_size 0, expected an integer from 1", id="empty beam"),
        pytest.param(["optimizer.learning_rate=0"], "learning_rate is 0.0", id="zero learning rate"),
        pytest.param(["optimizer.decay=1.1"], "decay is 1.1", id="growing decay"),
        pytest.param(["optimizer.decay=0"], "decay is 0.0", id="zero decay"),
        pytest.param(["optimizer.label_smoothing=1"], "label_smoothing is 1.0", id="full label smoothing"),
        pytest.param(
            ["objective.stage=cider", "from=x", "optimizer.label_smoothing=0.1"],
            "label_smoothing is 0.1, but the stage 'cider' has no labels to smooth",
            id="label smoothing in a self-critical stage",
        ),
        pytest.param(["model.hidden_size=0"], "got model.hidden_size 0", id="empty layer"),
        pytest.param(["examples.max_length=2"], "got examples.max_length 2, expected an integer from 3", id="no word"),
        pytest.param(["device.nodes=0"], "got device.nodes 0", id="no nodes"),
        pytest.param([f"model.hidden_size={2**62}"], "expected an integer from 1 to 65,536", id="endless layer"),
        pytest.param([f"batch_size={10**9}"], "got batch_size 1000000000, expected an integer", id="endless batch"),
        pytest.param([f"val_beam_size={10**12}"], "got val_beam_size 1000000000000", id="endless beam"),
        pytest.param([f"examples.max_length={10**9}"], "got examples.max_length 1000000000", id="endless captions"),
        pytest.param([f"examples.max_slots={10**9}"], "got examples.max_slots 1000000000", id="endless controls"),
        pytest.param([f"max_epochs={2**62}"], "got max_epochs 4611686018427387904", id="endless run"),
        pytest.param([f"seed={2**62}"], "got seed 4611686018427387904", id="seed that overflows"),
        pytest.param(["device.devices=100000"], "got device.devices 100000", id="process bomb"),
        pytest.param(["validate_every=1e308"], "expected a number above 0 and at most", id="validation past the end"),
        pytest.param(["optimizer.decay_every=1e-300"], "expected 0 or 0.001 or more", id="decay that overflows"),
    ],
)
def test_rejects_conflicting_values(write, overrides, message):
    with pytest.raises(InputError, match=re.escape(message)):
        CaptionerRecipe.load(write('data = "d"'), overrides)


def test_configs_check_types_on_construction():
    # In a subprocess, because beartype checks types first in the tests.
    code = """
import json
from sct.errors import InputError
from sct.training.captioner.config import *
found = []
cases = ((CaptionerRecipe, {"data": 3, "out": "o"}), (ObjectiveConfig, {"stage": "all"}), (ModelConfig, {"mode": None}))
for kind, values in cases:
    try:
        kind(**values)
    except InputError as error:
        found.append(str(error))
print(json.dumps(found))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [
        "data is 3: expected a string of at most 4,096 characters",
        "objective.stage is 'all': expected 'cross_entropy', 'cider' or 'cider_and_nw'",
        "model.mode is None: expected 'paper' or 'reference'",
    ]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4096)
sizes = st.integers(1, 1000)
rates = st.floats(1e-300, 1.0)
recipes = st.builds(
    CaptionerRecipe,
    data=texts,
    out=texts,
    start=texts,
    seed=st.integers(0, 2**32 - 1),
    max_seconds=st.floats(0, allow_infinity=False) | st.integers(0, 100),
    model=st.builds(ModelConfig, hidden_size=sizes, image_in_language_lstm=st.booleans()),
    examples=st.builds(ExamplesConfig, features=texts, storage=st.sampled_from(["auto", "device", "host"])),
    optimizer=st.builds(OptimizerConfig, learning_rate=rates, decay=rates),
    objective=st.builds(ObjectiveConfig, stage=st.just("cider"), num_samples=sizes, baseline=st.just("epoch_greedy")),
    device=st.builds(DeviceConfig, accelerator=texts, cuda_graph=st.booleans()),
)


@given(recipe=recipes)
def test_toml_round_trip(tmp_path_factory, recipe):
    path = tmp_path_factory.getbasetemp() / "resolved.toml"
    path.write_text(recipe.to_toml(), encoding="utf-8", newline="")
    again = CaptionerRecipe.load(path)
    assert again == recipe
    assert again.fingerprint() == recipe.fingerprint()


def test_toml_contains_every_setting():
    text = CaptionerRecipe(data="d", out="o", start="x").to_toml()
    assert 'from = "x"\n' in text
    assert "\n[device]\n" in text
    assert len(re.findall(r"^\w+ = ", text, flags=re.MULTILINE)) == 13 + 10 + 11 + 14 + 7 + 18 + 6


@pytest.mark.parametrize(
    ("teachers", "folders"),
    [
        pytest.param("", (), id="none"),
        pytest.param("runs/a/best", ("runs/a/best",), id="one"),
        pytest.param("a, b", ("a", "b"), id="two"),
    ],
)
def test_teacher_folders(teachers, folders):
    assert ObjectiveConfig(teachers=teachers).teacher_folders == folders


def test_fingerprint_ignores_limits_and_devices():
    recipe = CaptionerRecipe(data="d", out="o")
    changed = replace(
        recipe,
        out="elsewhere",
        max_epochs=99,
        max_steps=1,
        max_seconds=1.0,
        checkpoint_every_seconds=1.0,
        patience=0,
        device=DeviceConfig(accelerator="cpu", precision="32-true", cuda_graph=False),
        examples=ExamplesConfig(storage="host"),
    )
    assert changed.fingerprint() == recipe.fingerprint()
    others = [
        replace(recipe, seed=1),
        replace(recipe, data="e"),
        replace(recipe, objective=ObjectiveConfig(shift_weight=1.0)),
        replace(recipe, examples=ExamplesConfig(max_slots=3)),
    ]
    assert len({other.fingerprint() for other in [recipe, *others]}) == 5


def test_new_settings_keep_existing_fingerprints(monkeypatch):
    recipe = CaptionerRecipe(data="d", out="o", seed=3)
    before = recipe.fingerprint()
    flatten_config = config.flatten_config
    monkeypatch.setattr(config, "flatten_config", lambda record: flatten_config(record) | {"new_setting": 7})
    assert recipe.fingerprint() == before
    monkeypatch.setattr(config, "flatten_config", lambda record: flatten_config(record) | {"new_setting": record.seed})
    assert recipe.fingerprint() != before, "not the default"
