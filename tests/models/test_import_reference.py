"""The authors' files are read as they are, and nothing in them is run."""

import argparse
import builtins
import os
import pathlib
import pickle
import re
import shutil

import numpy as np
import pytest
import torch

from sct.errors import InputError
from sct.models.config import CaptionerConfig
from sct.models.import_reference import OUR_NAMES, import_reference, read_reference
from sct.models.show_control_tell import build_show_control_tell

SIZES = {"vocabulary_size": 7, "feature_size": 6, "word_size": 4, "hidden_size": 5, "attention_size": 3}
THEIR_NAMES = {ours: theirs for theirs, ours in OUR_NAMES.items()}


def their_weights(variant="ours", image_in_top_layer=False):
    torch.manual_seed(1)
    captioner = build_show_control_tell(
        CaptionerConfig(**SIZES, variant=variant, mode="reference", image_in_top_layer=image_in_top_layer)
    )
    parts = ((*name.rpartition("."), weight) for name, weight in captioner.state_dict().items())
    return {f"{THEIR_NAMES[part]}.{rest}": weight for part, _, rest, weight in parts}


def checkpoint(weights=None, **changes):
    """What the authors' train script saves; a change to None leaves the key out."""
    content = {
        "epoch": 12,
        "opt": argparse.Namespace(exp_name="x", h2_first_lstm=1, img_second_lstm=0, lr=5e-4, sample_rl=False),
        "val_cider": np.float64(1.25),
        "patience": 0,
        "best_cider": np.float32(1.5),
        "state_dict": their_weights() if weights is None else weights,
        "optimizer": {
            "state": {2**40: {"step": 3, "exp_avg": torch.ones(2)}},
            "param_groups": [{"betas": (0.9, 0.99)}],
        },
        "scheduler": {"last_epoch": 3, "base_lrs": [5e-4]},
    }
    return {name: value for name, value in {**content, **changes}.items() if value is not None}


@pytest.fixture
def save(tmp_path):
    def saved(content, **options):
        torch.save(content, tmp_path / "theirs.pth", **options)
        return tmp_path / "theirs.pth"

    return saved


@pytest.mark.parametrize("image_in_top_layer", [False, True])
@pytest.mark.parametrize("variant", ["ours", "single_sentinel", "no_visual_sentinel"])
def test_variant_and_sizes_are_told_by_the_weights(variant, image_in_top_layer, save):
    weights = their_weights(variant, image_in_top_layer)
    options = argparse.Namespace(h2_first_lstm=1, img_second_lstm=int(image_in_top_layer))
    read = read_reference(save(checkpoint(weights, opt=options)))
    assert read.config == CaptionerConfig(
        **SIZES, variant=variant, mode="reference", image_in_top_layer=image_in_top_layer
    )
    assert (read.epoch, read.val_cider) == (12, 1.25)
    assert len(read.weights) == len(weights)
    assert torch.equal(read.weights["words.weight"], weights["embed.weight"])


@pytest.mark.parametrize("numpy_name", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_reads_files_as_old_as_the_authors(numpy_name, save, monkeypatch):
    """No archive, tensors on a GPU, numbers by the name that NumPy had for them."""
    monkeypatch.setattr(torch.serialization, "location_tag", lambda _: "cuda:0")
    path = save(checkpoint(), _use_new_zipfile_serialization=False)
    named = re.sub(rb"numpy\._?core\.multiarray", numpy_name.encode(), path.read_bytes())
    assert numpy_name.encode() in named
    path.write_bytes(named)
    read = read_reference(path)
    assert (read.epoch, read.val_cider) == (12, 1.25)
    assert {weight.device.type for weight in read.weights.values()} == {"cpu"}


@pytest.mark.parametrize(
    ("changes", "epoch", "val_cider"),
    [
        pytest.param(
            {"epoch": None, "val_cider": None, "opt": None, "optimizer": None}, None, None, id="weights alone"
        ),
        pytest.param({"epoch": np.int64(3), "val_cider": np.array(2, ">f4")[()]}, 3, 2.0, id="NumPy's numbers"),
        pytest.param({"epoch": torch.tensor(3), "val_cider": float("nan")}, 3, None, id="a tensor, and no number"),
        pytest.param({"epoch": "third", "val_cider": [1]}, None, None, id="no numbers at all"),
        pytest.param({"epoch": True, "val_cider": 10**400}, None, None, id="a truth, and a number past all bounds"),
        pytest.param({"opt": argparse.Namespace(lr=1)}, 12, 1.25, id="options that say nothing of layers"),
    ],
)
def test_facts(changes, epoch, val_cider, save):
    read = read_reference(save(checkpoint(**changes)))
    assert (read.epoch, read.val_cider) == (epoch, val_cider)


def test_weights_saved_from_inside_data_parallel(save):
    weights = {f"module.{name}": weight for name, weight in their_weights().items()}
    assert read_reference(save(checkpoint(weights))).config.variant == "ours"


class RunsCode:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


WAYS_TO_SAVE = {
    "archive": torch.save,
    "old": lambda content, path: torch.save(content, path, _use_new_zipfile_serialization=False),
    "plain pickle": lambda content, path: path.write_bytes(pickle.dumps(content, protocol=2)),
    "newest pickle": lambda content, path: path.write_bytes(pickle.dumps(content)),
}


@pytest.mark.parametrize("way", WAYS_TO_SAVE)
@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(lambda target: RunsCode(os.system, f"touch {target}"), id="a shell"),
        pytest.param(
            lambda target: RunsCode(builtins.exec, f"import pathlib; pathlib.Path({str(target)!r}).touch()"),
            id="a program",
        ),
        pytest.param(lambda target: RunsCode(pathlib.Path.touch, pathlib.Path(target)), id="a method"),
        pytest.param(lambda target: RunsCode(shutil.copyfile, __file__, str(target)), id="a copy"),
        pytest.param(lambda target: RunsCode(np.save, str(target), 1), id="NumPy"),
        pytest.param(lambda target: RunsCode(torch.save, 1, str(target)), id="torch"),
    ],
)
def test_a_file_that_runs_code_is_refused_and_not_run(attack, way, tmp_path):
    target = tmp_path / "touched"
    content = checkpoint(extra=attack(target))
    pickle.loads(pickle.dumps(attack(target)))
    made = [path for path in tmp_path.iterdir() if path.name.startswith("touched")]
    assert made, "the attack must work where nothing is refused"
    for path in made:
        path.unlink()
    WAYS_TO_SAVE[way](content, tmp_path / "theirs.pth")
    with pytest.raises(InputError, match=r"theirs\.pth") as error:
        read_reference(tmp_path / "theirs.pth")
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.pth"]
    assert "\n" not in str(error.value)
    if way in ("archive", "old"):
        assert "which may run code and no weights need" in str(error.value)


@pytest.mark.parametrize("way", ["archive", "old"])
def test_a_file_cut_short_is_refused(way, tmp_path):
    path = tmp_path / "theirs.pth"
    WAYS_TO_SAVE[way](checkpoint(), path)
    whole = path.read_bytes()
    for length in [*range(0, 200, 7), *range(200, len(whole), 997), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"is cut short or no checkpoint|asks to load"):
            read_reference(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param({}, "holds no state_dict", id="nothing"),
        pytest.param([1, 2], "holds no state_dict", id="no dict"),
        pytest.param(their_weights(), "holds no state_dict", id="weights without the rest"),
        pytest.param(checkpoint({}), "has no matrix embed.weight", id="no weights"),
        pytest.param(checkpoint({"a": 1}), "has no matrix embed.weight", id="other weights"),
        pytest.param(checkpoint({1: torch.ones(1)}), "holds no state_dict", id="weights without names"),
    ],
)
def test_refuses_what_is_no_checkpoint(content, message, save):
    with pytest.raises(InputError, match=message):
        read_reference(save(content))


def test_refuses_what_is_no_file(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_reference(tmp_path / "nowhere.pth")
    with pytest.raises(InputError, match="is a folder"):
        read_reference(tmp_path)
    (tmp_path / "words.txt").write_text("a\ndog\n")
    with pytest.raises(InputError, match="is cut short or no checkpoint"):
        read_reference(tmp_path / "words.txt")


def without(*names):
    return {name: weight for name, weight in their_weights().items() if name.partition(".")[0] not in names}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        pytest.param(without("out_fc"), "lacks out_fc.bias and 1 more weights", id="some missing"),
        pytest.param(without("W1_is", "W1_ig"), "has neither W1_is nor W1_ig", id="no sentinel"),
        pytest.param(without("W1_is"), "has W1_hs.bias and 5 more weights, which no such", id="half a sentinel"),
        pytest.param({**their_weights(), "x": torch.ones(1)}, "has the weight x, which no", id="one more"),
        pytest.param({**their_weights(), "out_fc.bias": torch.ones(9)}, "has shape (9,): expected (7,)", id="a shape"),
        pytest.param({**their_weights(), "out_fc.bias": [1.0] * 7}, "is of kind list", id="no tensor"),
        pytest.param({**their_weights(), "s_fc.bias": torch.full((6,), torch.nan)}, "not finite", id="NaN"),
        pytest.param(
            {**their_weights(), "s_fc.bias": torch.ones(6, device="meta")},
            "are not finite",
            id="a tensor without values",
        ),
        pytest.param(
            {**their_weights(), "lstm_cell_1.weight_ih": torch.ones(20, 10)},
            "without h2_first_lstm",
            id="no second state",
        ),
        pytest.param(
            {**their_weights(), "lstm_cell_1.weight_ih": torch.ones(20, 12)},
            "expected (20, 15)",
            id="another input below",
        ),
        pytest.param(
            {**their_weights(), "lstm_cell_2.weight_ih": torch.ones(20, 12)}, "expected 11, or 17 with", id="or above"
        ),
    ],
)
def test_refuses_other_weights(weights, message, save):
    with pytest.raises(InputError) as error:
        read_reference(save(checkpoint(weights)))
    assert message in str(error.value)
    assert "theirs.pth" in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"h2_first_lstm": 0}, "says h2_first_lstm=0 in opt, but its weights say True", id="bottom layer"),
        pytest.param({"img_second_lstm": 1}, "says img_second_lstm=1 in opt, but its weights say F", id="top layer"),
    ],
)
def test_refuses_options_that_contradict_the_weights(options, message, save):
    with pytest.raises(InputError, match=message):
        read_reference(save(checkpoint(opt=argparse.Namespace(**options))))


def test_imported_as_a_bundle(save, tmp_path):
    (tmp_path / "words.txt").write_text("a\ndog\nsleeps\n")
    weights = their_weights()
    bundle = import_reference(save(checkpoint(weights)), tmp_path / "words.txt", tmp_path / "bundle")
    assert bundle.vocabulary.words[4:] == ("a", "dog", "sleeps")
    assert torch.equal(bundle.captioner.output.weight, weights["out_fc.weight"])
    assert (bundle.provenance["source"], bundle.provenance["epoch"]) == ("theirs.pth", 12)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"img_second_lstm": 1}, id="a dict that contradicts the weights"),
        pytest.param(argparse.Namespace(h2_first_lstm=torch.ones(3)), id="an option that is no truth"),
    ],
)
def test_options_that_contradict_the_weights_are_refused(options, save):
    with pytest.raises(InputError, match="in opt, but its weights say"):
        read_reference(save(checkpoint(opt=options)))
