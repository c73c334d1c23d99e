"""Collation of controls."""

from sct.captioner.collate import collate_samples
from sct.data.dataset import Dataset
from sct.data.samples import MAX_REGIONS_PER_SET
from tests.factories import make_layout_captioner, make_layout_dataset, make_layout_features


def test_collate_samples_gathers_each_region_once(tmp_path):
    captioner, dataset = make_layout_captioner(), Dataset.open(make_layout_dataset(tmp_path / "data"))
    features = make_layout_features(captioner, dataset)
    inputs = collate_samples(features, [1, 0, 1], [((0,), (2, 3)), ((3,),), ((2,), (0,))])
    assert inputs.regions.shape[0] == 4
    assert inputs.set_rows[0, 0, 0] == inputs.set_rows[2, 1, 0]
    assert inputs.num_slots.tolist() == [2, 1, 2]
    assert (inputs.image[0] == inputs.image[2]).all()
    many = collate_samples(features, [0], [((0, 1, 2, 3) * 9,)])
    assert many.set_mask.sum() == MAX_REGIONS_PER_SET
