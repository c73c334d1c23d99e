import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sct.storage.artifacts import ArtifactFormat
from sct.storage.tensor_writer import TensorSpec, map_tensors, stream_tensors

FORMAT = ArtifactFormat("sct test", "write it again", version=3)
DTYPES = [np.bool_, np.uint8, np.uint16, np.uint32, np.int64, np.float16, np.float32]


def make_specs(arrays):
    return {name: TensorSpec(array.dtype, array.shape) for name, array in arrays.items()}


@given(st.data())
def test_bytes_are_those_of_a_file_written_at_once(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("tensors")
    arrays = {}
    for name in data.draw(st.lists(st.sampled_from(["a", "b", "strings.é", "z"]), unique=True, min_size=1)):
        shape = (data.draw(st.integers(0, 4)), *data.draw(st.sampled_from([(), (2,)])))
        values = np.arange(np.prod(shape, dtype=int)) % 2
        arrays[name] = values.reshape(shape).astype(data.draw(st.sampled_from(DTYPES)))
    FORMAT.save_tensors(folder / "whole", arrays)
    with stream_tensors(FORMAT, folder / "pieces", make_specs(arrays)) as writer:
        for part in (slice(0, 1), slice(1, None)):
            for name, array in arrays.items():
                writer.append(name, array[part])
    assert (folder / "pieces").read_bytes() == (folder / "whole").read_bytes()
    mapped = map_tensors(FORMAT, folder / "pieces", make_specs(arrays))
    for name, array in arrays.items():
        np.testing.assert_array_equal(mapped[name], array)
        assert mapped[name].dtype == array.dtype


def test_rows_are_converted_to_the_type_of_their_array(tmp_path):
    specs = {"a": TensorSpec(np.dtype(np.uint16), (2,))}
    with stream_tensors(FORMAT, tmp_path / "file", specs) as writer:
        writer.append("a", np.array([1, 65535], np.int64))
    assert FORMAT.load_tensors(tmp_path / "file").tensors["a"].tolist() == [1, 65535]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param([], "lacks 8 bytes", id="none"),
        pytest.param([np.zeros(1)], "lacks 4 bytes", id="too few"),
        pytest.param([np.zeros(2), np.zeros(1)], "more rows of a, expected", id="too many"),
        pytest.param([np.zeros((2, 2))], "more rows of a, expected", id="another shape"),
    ],
)
def test_a_file_with_other_rows_is_not_written(tmp_path, rows, message):
    def write():
        with stream_tensors(FORMAT, tmp_path / "file", {"a": TensorSpec(np.dtype(np.float32), (2,))}) as writer:
            for piece in rows:
                writer.append("a", piece)

    with pytest.raises(ValueError, match=message):
        write()
    assert list(tmp_path.iterdir()) == []
