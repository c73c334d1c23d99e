"""What a captioner learns from that sees a control as one pool: its region sets one after the other, as one set."""

import numpy as np

from sct.data.examples import Examples
from sct.data.whole_images import MOST_REGIONS


def examples_of_pooled_controls(examples: Examples) -> Examples:
    """The same captions, all region sets of each as one, with nothing to shift to.

    A region that several sets name is there as often. Of those that name very many the first ones stay: tables are as
    wide as the widest control, and the few wide ones would cost all others.
    """
    sizes, starts = examples.set_sizes.astype(np.int64).ravel(), examples.set_starts.astype(np.int64).ravel()
    place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members = examples.members[np.repeat(starts, sizes) + place]
    totals = examples.set_sizes.sum(axis=1, dtype=np.int64)
    place_in_pool = np.arange(totals.sum()) - np.repeat(np.cumsum(totals) - totals, totals)
    kept = np.minimum(totals, MOST_REGIONS)
    return examples.with_one_set(np.cumsum(kept) - kept, kept, members[place_in_pool < MOST_REGIONS])
