import torch

from sct.captioner.import_reference import import_reference
from tests.models.test_import_reference import checkpoint, reference_weights


def test_reference_checkpoint_becomes_a_bundle(tmp_path):
    (tmp_path / "words.txt").write_text("a\ndog\nsleeps\n")
    weights = reference_weights()
    torch.save(checkpoint(weights), tmp_path / "checkpoint.pth")
    bundle = import_reference(tmp_path / "checkpoint.pth", tmp_path / "words.txt", tmp_path / "bundle")
    assert bundle.vocabulary.words[4:] == ("a", "dog", "sleeps")
    assert torch.equal(bundle.model.vocab_projection.weight, weights["out_fc.weight"])
    assert (bundle.provenance["source"], bundle.provenance["epoch"]) == ("checkpoint.pth", 12)
