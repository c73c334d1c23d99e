"""Join table shards to a dataset folder, in bounded memory."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sct.data.corpus_words import build_noun_table, word_tags
from sct.data.dataset import NEW_TABLE, Manifest, finish_dataset
from sct.data.table import TRAINING_SPLIT, VALIDATION_SPLIT
from sct.data.table_join import join_table_files
from sct.language.word_vectors import load_vectors


def counted_splits(mode: str) -> tuple[str, ...]:
    """Splits whose words the vocabulary counts.

    The authors also count words of validation captions; the vocabulary should not depend on held-out captions.
    """
    return (TRAINING_SPLIT, VALIDATION_SPLIT) if mode == "reference" else (TRAINING_SPLIT,)


def join_shards(files: Sequence[Path], out: Path, manifest: Manifest, *, vectors: Path | None = None) -> Manifest:
    """Write the dataset folder of the images of table files, in their order; one file at a time is in memory.

    Images and captions are counted anew: captions of ``manifest`` that the files lack are added to its unreadable
    inputs. A dataset in the folder is kept until the new one is complete. ``vectors`` is a file of word vectors for the
    noun table; None: GloVe 6B 50-d. Returns the final manifest.
    """
    out.mkdir(parents=True, exist_ok=True)
    joined = out / NEW_TABLE
    try:
        table, vocabulary = join_table_files(files, joined, counted_splits=counted_splits(manifest.mode))
        num_captions = len(table.columns["auto_grounded"])
        skipped = Counter(manifest.skipped)
        skipped["unreadable_inputs"] += manifest.num_captions - num_captions
        manifest = replace(
            manifest,
            num_images=len(table.image_ids),
            num_captions=num_captions,
            skipped={reason: count for reason, count in skipped.items() if count},
        )
        nouns = build_noun_table(table, load_vectors(vectors))
        tags = word_tags(table, TRAINING_SPLIT, vocabulary)
        del table  # some systems do not move a file that is memory-mapped
        finish_dataset(out, joined, vocabulary, manifest, nouns, tags)
    finally:
        joined.unlink(missing_ok=True)
    return manifest
