import pytest
import torch

from sct.captioner.cuda_graph import CudaGraphSearch, _copy_into, _round_up
from sct.decoding import SearchConfig, beam_search
from sct.errors import InputError
from sct.models.fast_decoder import FastDecoder
from sct.models.inputs import ControlBatch
from tests.factories import make_control_batch, make_model

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a GPU, and there is none")


def test_early_stop_is_redecoder():
    with pytest.raises(InputError, match="use early_stop=False"):
        CudaGraphSearch(FastDecoder(make_model()), SearchConfig())


@pytest.mark.parametrize(
    ("size", "rounded"),
    [(0, 0), (1, 1), (15, 15), (16, 16), (17, 18), (31, 32), (33, 36), (100, 104), (1000, 1024), (1025, 1152)],
)
def test_sizes_are_rounded_up_to_four_significant_bits(size, rounded):
    assert _round_up(size) == rounded


def test_rounding_up_wastes_at_most_an_eighth():
    sizes = range(1, 5000)
    rounded = [_round_up(size) for size in sizes]
    assert all(size <= more <= size + size / 8 for size, more in zip(sizes, rounded, strict=True))
    assert rounded == sorted(rounded)
    assert [_round_up(size) for size in rounded] == rounded
    # Eight sizes for each doubling, so that few graphs serve them all.
    assert len({more for more in rounded if 1024 < more <= 2048}) == 8


def garbage(rows: int, examples: int, slots: int, members: int) -> ControlBatch:
    """Static input full of NaN and stale rows, as an earlier batch may leave it."""
    return ControlBatch(
        torch.full((rows, 6), torch.nan),
        torch.full((examples, 6), torch.nan),
        torch.full((examples, slots, members), rows - 1),
        torch.ones(examples, slots, members, dtype=torch.bool),
        torch.full((examples,), slots),
    )


def sizes(inputs: ControlBatch) -> tuple[int, int, int, int]:
    examples, slots, members = inputs.set_rows.shape
    return len(inputs.regions), examples, slots, members


@pytest.mark.parametrize("more", [(0, 0, 0, 0), (2, 3, 1, 2)], ids=["no room left", "room left"])
def test_copy_into_static_input(more):
    inputs = make_control_batch()
    rows, examples, slots, members = sizes(inputs)
    static = garbage(*(size + extra for size, extra in zip(sizes(inputs), more, strict=True)))
    _copy_into(static, inputs)
    assert torch.equal(static.regions[:rows], inputs.regions)
    assert torch.equal(static.image[:examples], inputs.image)
    assert torch.equal(static.set_rows[:examples, :slots, :members], inputs.set_rows)
    assert torch.equal(static.set_mask[:examples, :slots, :members], inputs.set_mask)
    assert torch.equal(static.num_slots[:examples], inputs.num_slots)
    # Padding: no valid members, no stale rows, one region set per example.
    assert static.set_mask.sum() == inputs.set_mask.sum()
    assert static.set_rows.max() < rows
    assert (static.num_slots[examples:] == 1).all()


@pytest.mark.parametrize("variant", ["show_control_tell", "no_visual_sentinel", "transformer"])
def test_static_input_decodes_like_the_batch(variant):
    decoder, inputs = make_model(variant=variant).for_inference(), make_control_batch()
    static = garbage(*(size + 2 for size in sizes(inputs)))
    static.image.zero_()
    _copy_into(static, inputs)
    settings = SearchConfig(max_length=6, early_stop=False)
    expected = beam_search(decoder, decoder.init_state(inputs), settings)
    found = beam_search(decoder, decoder.init_state(static), settings)
    assert torch.equal(found.words[: len(expected.words)], expected.words)
    assert torch.allclose(found.scores[: len(expected.words)], expected.scores, atol=1e-5)


@needs_cuda
@pytest.mark.parametrize("config", [{}, {"mode": "reference"}, {"variant": "transformer"}], ids=str)
def test_equals_the_search_for_batches_of_many_shapes(config):
    decoder = make_model(**config).cuda().for_inference()
    settings = SearchConfig(max_length=8, n_best=3, early_stop=False)
    graph_search = CudaGraphSearch(decoder, settings)
    # Shapes that are captured, reused, share a capture (17 and 18), and shrink.
    for seed, num_examples in enumerate([1, 3, 1, 18, 17, 18, 2, 40, 33]):
        inputs = make_control_batch(seed, num_examples, num_rows=3 + num_examples).to("cuda")
        found = graph_search(inputs)
        expected = beam_search(decoder, decoder.init_state(inputs), settings)
        assert torch.equal(found.words, expected.words)
        assert torch.equal(found.shifts, expected.shifts)
        assert torch.equal(found.token_mask, expected.token_mask)
        assert torch.allclose(found.scores, expected.scores, atol=1e-4)


@needs_cuda
def test_results_are_not_overwritten_by_the_next_call():
    decoder = FastDecoder(make_model().cuda())
    graph_search = CudaGraphSearch(decoder, SearchConfig(max_length=8, early_stop=False))
    first = graph_search(make_control_batch(1).to("cuda"))
    kept = first.words.clone()
    graph_search(make_control_batch(2).to("cuda"))
    assert torch.equal(first.words, kept)
