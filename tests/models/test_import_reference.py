"""Checkpoints of the authors are read without executing anything in them."""

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
from sct.models.import_reference import KEY_MAP, read_reference
from sct.models.show_control_tell import build_show_control_tell

SIZES = {"vocabulary_size": 7, "feature_size": 6, "word_size": 4, "hidden_size": 5, "attention_size": 3}
REFERENCE_KEYS = {ours: reference for reference, ours in KEY_MAP.items()}


def reference_weights(variant="show_control_tell", image_in_language_lstm=False):
    torch.manual_seed(1)
    captioner = build_show_control_tell(
        CaptionerConfig(**SIZES, variant=variant, mode="reference", image_in_language_lstm=image_in_language_lstm)
    )
    parts = ((*name.rpartition("."), weight) for name, weight in captioner.state_dict().items())
    return {f"{REFERENCE_KEYS[part]}.{rest}": weight for part, _, rest, weight in parts}


def checkpoint(weights=None, **changes):
    """Contents that the authors' train script saves; a change to None leaves the key out."""
    content = {
        "epoch": 12,
        "opt": argparse.Namespace(exp_name="x", h2_first_lstm=1, img_second_lstm=0, lr=5e-4, sample_rl=False),
        "val_cider": np.float64(1.25),
        "patience": 0,
        "best_cider": np.float32(1.5),
        "state_dict": reference_weights() if weights is None else weights,
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
        torch.save(content, tmp_path / "checkpoint.pth", **options)
        return tmp_path / "checkpoint.pth"

    return saved


@pytest.mark.parametrize("image_in_language_lstm", [False, True])
@pytest.mark.parametrize("variant", ["show_control_tell", "single_sentinel", "no_visual_sentinel"])
def test_variant_and_sizes_are_inferred_from_the_weights(variant, image_in_language_lstm, save):
    weights = reference_weights(variant, image_in_language_lstm)
    options = argparse.Namespace(h2_first_lstm=1, img_second_lstm=int(image_in_language_lstm))
    read = read_reference(save(checkpoint(weights, opt=options)))
    assert read.config == CaptionerConfig(
        **SIZES, variant=variant, mode="reference", image_in_language_lstm=image_in_language_lstm
    )
    assert (read.epoch, read.val_cider) == (12, 1.25)
    assert len(read.weights) == len(weights)
    assert torch.equal(read.weights["word_embedding.weight"], weights["embed.weight"])


@pytest.mark.parametrize("numpy_name", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_reads_the_old_torch_format(numpy_name, save, monkeypatch):
    """Not a zip archive, tensors on a GPU, NumPy scalars by their old module name."""
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
        pytest.param({"epoch": None, "val_cider": None, "opt": None, "optimizer": None}, None, None, id="weights only"),
        pytest.param({"epoch": np.int64(3), "val_cider": np.array(2, ">f4")[()]}, 3, 2.0, id="NumPy scalars"),
        pytest.param({"epoch": torch.tensor(3), "val_cider": float("nan")}, 3, None, id="tensor, NaN"),
        pytest.param({"epoch": "third", "val_cider": [1]}, None, None, id="not numbers"),
        pytest.param({"epoch": True, "val_cider": 10**400}, None, None, id="bool, and out of range"),
        pytest.param({"opt": argparse.Namespace(lr=1)}, 12, 1.25, id="options without LSTM inputs"),
    ],
)
def test_epoch_and_score(changes, epoch, val_cider, save):
    read = read_reference(save(checkpoint(**changes)))
    assert (read.epoch, read.val_cider) == (epoch, val_cider)


def test_weights_saved_from_inside_data_parallel(save):
    weights = {f"module.{name}": weight for name, weight in reference_weights().items()}
    assert read_reference(save(checkpoint(weights))).config.variant == "show_control_tell"


class RunsCode:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


SAVE_FUNCTIONS = {
    "archive": torch.save,
    "old": lambda content, path: torch.save(content, path, _use_new_zipfile_serialization=False),
    "plain pickle": lambda content, path: path.write_bytes(pickle.dumps(content, protocol=2)),
    "newest pickle": lambda content, path: path.write_bytes(pickle.dumps(content)),
}


@pytest.mark.parametrize("container", SAVE_FUNCTIONS)
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
def test_pickles_that_execute_code_are_rejected_unexecuted(attack, container, tmp_path):
    target = tmp_path / "touched"
    content = checkpoint(extra=attack(target))
    pickle.loads(pickle.dumps(attack(target)))
    made = [path for path in tmp_path.iterdir() if path.name.startswith("touched")]
    assert made, "the attack must work where nothing is refused"
    for path in made:
        path.unlink()
    SAVE_FUNCTIONS[container](content, tmp_path / "checkpoint.pth")
    with pytest.raises(InputError, match=r"checkpoint\.pth") as error:
        read_reference(tmp_path / "checkpoint.pth")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pth"]
    assert "\n" not in str(error.value)
    if container in ("archive", "old"):
        assert "expected tensors and plain values only: nothing was executed" in str(error.value)


@pytest.mark.parametrize("container", ["archive", "old"])
def test_truncated_files_are_rejected(container, tmp_path):
    path = tmp_path / "checkpoint.pth"
    SAVE_FUNCTIONS[container](checkpoint(), path)
    whole = path.read_bytes()
    for length in [*range(0, 200, 7), *range(200, len(whole), 997), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"is truncated or not a checkpoint|would import"):
            read_reference(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param({}, "has no state_dict", id="nothing"),
        pytest.param([1, 2], "has no state_dict", id="no dict"),
        pytest.param(reference_weights(), "has no state_dict", id="weights without the rest"),
        pytest.param(checkpoint({}), "has no matrix embed.weight", id="no weights"),
        pytest.param(checkpoint({"a": 1}), "has no matrix embed.weight", id="other weights"),
        pytest.param(checkpoint({1: torch.ones(1)}), "has no state_dict", id="weights without names"),
    ],
)
def test_rejects_other_contents(content, message, save):
    with pytest.raises(InputError, match=message):
        read_reference(save(content))


def test_rejects_paths_that_are_no_checkpoint(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_reference(tmp_path / "nowhere.pth")
    with pytest.raises(InputError, match="is a folder"):
        read_reference(tmp_path)
    (tmp_path / "words.txt").write_text("a\ndog\n")
    with pytest.raises(InputError, match="is truncated or not a checkpoint"):
        read_reference(tmp_path / "words.txt")


def without(*names):
    return {name: weight for name, weight in reference_weights().items() if name.partition(".")[0] not in names}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        pytest.param(without("out_fc"), "lacks out_fc.bias and 1 more,", id="some missing"),
        pytest.param(without("W1_is", "W1_ig"), "has neither W1_is nor W1_ig", id="no sentinel"),
        pytest.param(without("W1_is"), "has W1_hs.bias and 5 more besides the", id="half a sentinel"),
        pytest.param({**reference_weights(), "x": torch.ones(1)}, "has x besides the", id="one more"),
        pytest.param(
            {**reference_weights(), "out_fc.bias": torch.ones(9)}, "has shape (9,), expected (7,)", id="a shape"
        ),
        pytest.param({**reference_weights(), "out_fc.bias": [1.0] * 7}, "is a list, expected", id="no tensor"),
        pytest.param({**reference_weights(), "s_fc.bias": torch.full((6,), torch.nan)}, "not finite", id="NaN"),
        pytest.param(
            {**reference_weights(), "s_fc.bias": torch.ones(6, device="meta")},
            "would import torch._utils._rebuild_meta_tensor",
            id="meta tensor",
        ),
        pytest.param(
            {**reference_weights(), "lstm_cell_1.weight_ih": torch.ones(20, 10)},
            "without h2_first_lstm",
            id="without the language state",
        ),
        pytest.param(
            {**reference_weights(), "lstm_cell_1.weight_ih": torch.ones(20, 12)},
            "expected (20, 15)",
            id="attention LSTM input",
        ),
        pytest.param(
            {**reference_weights(), "lstm_cell_2.weight_ih": torch.ones(20, 12)},
            "expected 11, or 17 with",
            id="language LSTM input",
        ),
    ],
)
def test_rejects_other_weights(weights, message, save):
    with pytest.raises(InputError) as error:
        read_reference(save(checkpoint(weights)))
    assert message in str(error.value)
    assert "checkpoint.pth" in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"h2_first_lstm": 0}, "got h2_first_lstm=0 in opt, but True by its weights", id="attention LSTM"),
        pytest.param({"img_second_lstm": 1}, "got img_second_lstm=1 in opt, but False by its", id="language LSTM"),
    ],
)
def test_rejects_options_that_contradict_the_weights(options, message, save):
    with pytest.raises(InputError, match=message):
        read_reference(save(checkpoint(opt=argparse.Namespace(**options))))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"img_second_lstm": 1}, id="a dict that contradicts the weights"),
        pytest.param(argparse.Namespace(h2_first_lstm=torch.ones(3)), id="not a bool"),
    ],
)
def test_rejects_contradicting_options_of_any_type(options, save):
    with pytest.raises(InputError, match="in opt, but"):
        read_reference(save(checkpoint(opt=options)))
