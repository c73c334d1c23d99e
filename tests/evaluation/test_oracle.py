"""The diversity protocol: which orders are tried, and which captions are kept."""

from math import perm

import pytest

from sct.captioner.captioner import CaptionOptions
from sct.data.records import AnnotatedImage, Caption, Chunk
from sct.errors import InputError
from sct.evaluation.oracle import MOST_SETS, candidate_orders, oracle_captions, region_pools
from sct.regions import Box, Region
from tests.evaluation.small_captioner import annotated, layout_features, small_captioner, small_dataset


def sets(count):
    return tuple((number,) for number in range(count))


@pytest.mark.parametrize(
    ("num_sets", "most", "expected"),
    [
        pytest.param(1, 9, 1, id="one set"),
        pytest.param(3, 15, 3 + 6 + 6, id="all of them, just"),
        pytest.param(3, 14, 14, id="one too many"),
        pytest.param(3, 100, 15, id="more asked for than there are"),
        pytest.param(10, 100, 100, id="ten million orders"),
        pytest.param(60, 100, 100, id="more sets than a caption can name"),
    ],
)
def test_orders_are_all_or_a_bounded_number_of_different_ones(num_sets, most, expected):
    found = candidate_orders(sets(num_sets), most, "image")
    assert len(found) == len(set(found)) == expected
    assert found == candidate_orders(sets(num_sets), most, "image"), "chance is the same each time"
    for order in found:
        assert len(set(order)) == len(order) <= MOST_SETS
        assert set(order) <= set(sets(num_sets))


@pytest.mark.parametrize("most", [10**6, 100, 30, 5])
def test_two_sets_of_the_same_members_make_no_order_twice(most):
    found = candidate_orders(((0,), (0,), (1,), (2,)), most, "image")
    assert len(found) == len(set(found)) <= most
    # One of three; two: six of different members and two zeros; three: six without, six with two zeros; four: twelve.
    assert len(found) == min(most, 3 + 7 + 12 + 12)


def test_where_nearly_all_sets_are_the_same_few_orders_are_found():
    found = candidate_orders(((0,),) * 9 + ((1,),), 100, "image")
    assert 10 <= len(found) == len(set(found)) <= 100


def test_every_number_of_sets_gets_its_share():
    lengths = [len(order) for order in candidate_orders(sets(10), 100, "image")]
    assert {lengths.count(length) for length in range(1, 11)} == {10}
    # Four orders of one set do not use their share of 20: the rest goes to the larger ones.
    lengths = [len(order) for order in candidate_orders(sets(4), 40, "image")]
    assert [lengths.count(length) for length in range(1, 5)] == [4, 12, 12, 12]
    assert perm(4, 3) > 12


@pytest.fixture(scope="module")
def captioner():
    return small_captioner()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return small_dataset(tmp_path_factory.mktemp("oracle") / "data")


def test_a_pool_has_the_sets_of_all_captions(dataset):
    pools = region_pools(dataset.table, "val")
    assert [(pool.image, pool.sets, pool.captions) for pool in pools] == [
        (0, ((1,), (2, 3)), (0, 1, 2)),
        (1, ((0,), (1,), (2, 3)), (3, 4)),
    ]


def test_the_likeliest_captions_that_differ_are_kept(captioner, dataset):
    pools, features = region_pools(dataset.table, "val"), layout_features(captioner, dataset)
    told = []
    found = oracle_captions(captioner, features, pools, 4, progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 2)]
    for pool, captions in zip(pools, found, strict=True):
        assert len({caption.text for caption in captions}) == len(captions) == 4
        log_probs = [caption.log_prob for caption in captions]
        assert log_probs == sorted(log_probs, reverse=True)
        assert all(set(caption.control) <= set(pool.sets) for caption in captions)
    # What one caption is kept of is the likeliest of all.
    [[best], _] = oracle_captions(captioner, features, pools, 1, most_orders=20)
    assert best.text == found[0][0].text


def test_orders_may_be_read_otherwise(captioner, dataset):
    pools, features = region_pools(dataset.table, "val"), layout_features(captioner, dataset)
    asked = []

    def backwards(pool, most):
        asked.append(most)
        return [pool.sets[::-1]]

    for pool, captions in zip(
        pools, oracle_captions(captioner, features, pools, 4, orders=backwards, most_orders=7), strict=True
    ):
        assert {caption.control for caption in captions} == {pool.sets[::-1]}
        assert len(captions) == 4, "one order has a beam that finds them all"
    assert asked == [7] * len(pools)


def test_captions_are_ranked_with_their_length_and_tell_how_likely_they_are(dataset):
    captioner = small_captioner(13, length_penalty=1.0)
    pools, features = region_pools(dataset.table, "val"), layout_features(captioner, dataset)
    for captions in oracle_captions(captioner, features, pools, 4):
        scores = [caption.score for caption in captions]
        assert scores == sorted(scores, reverse=True)
        lengths = [caption.log_prob / caption.score for caption in captions]
        assert lengths == pytest.approx([round(length) for length in lengths], rel=1e-4)
        for length, caption in zip(lengths, captions, strict=True):
            assert max(len(caption.text.split()), 2) <= round(length) <= 20, "words that are not written count as well"


def test_batches_do_not_matter(captioner, dataset):
    pools, features = region_pools(dataset.table, "val"), layout_features(captioner, dataset)
    together = oracle_captions(captioner, features, pools, 5)
    alone = [oracle_captions(captioner, features, [pool], 5, batch_size=3)[0] for pool in pools]
    assert [[caption.text for caption in captions] for captions in together] == [
        [caption.text for caption in captions] for captions in alone
    ]


def test_an_image_of_one_set_is_searched_with_twice_as_wide_a_beam_as_captions_are_wanted(captioner, tmp_path):
    dataset = small_dataset(tmp_path / "data", [annotated("1", ("dog",))])
    pools, features = region_pools(dataset.table, "val"), layout_features(captioner, dataset)
    [captions] = oracle_captions(captioner, features, pools, 20, options=CaptionOptions(max_length=2))
    assert 10 < len(captions) <= 20, "a beam of forty, which says some texts with other shifts too; twenty find seven"
    assert len({caption.text for caption in captions}) == len(captions)


@pytest.mark.parametrize(
    ("num_sets", "orders"),
    [
        pytest.param(1, 1, id="one set"),
        pytest.param(4, 4 + 12 + 24 + 24, id="all orders of four sets"),
        pytest.param(10, 100, id="100 of ten million"),
        pytest.param(14, 100, id="more sets than a caption can name"),
    ],
)
def test_an_image_of_many_sets_is_said_in_a_bounded_number_of_orders(
    num_sets, orders, captioner, tmp_path, monkeypatch
):
    regions = tuple(Region(Box(place, 5, place + 9, 40), "dog") for place in range(num_sets))
    chunks = tuple(Chunk("dog", (place,)) for place in range(num_sets))
    caption = Caption("dog " * num_sets, ("dog",) * num_sets, tuple(range(num_sets)), chunks)
    image = AnnotatedImage(image_id="1", split="val", width=50, height=50, regions=regions, captions=(caption,))
    dataset = small_dataset(tmp_path / "data", [image])
    searched, search = [], captioner.search

    def counted(inputs, *arguments, **options):
        searched.append(len(inputs.num_slots))
        return search(inputs, *arguments, **options)

    monkeypatch.setattr(captioner, "search", counted)
    [captions] = oracle_captions(
        captioner, layout_features(captioner, dataset), region_pools(dataset.table, "val"), 20, batch_size=30
    )
    assert sum(searched) == orders
    assert max(searched) <= 30, "what is in memory at once does not grow either"
    assert 0 < len(captions) <= 20


def test_no_captions_at_all_are_refused(captioner, dataset):
    with pytest.raises(InputError, match="expected at least 1"):
        oracle_captions(captioner, layout_features(captioner, dataset), [], 0)
