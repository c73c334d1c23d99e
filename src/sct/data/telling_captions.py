"""The captions that tell of words: to tag all of COCO's would take several times longer."""

from collections.abc import Iterable, Iterator, Sequence


def telling_captions(captions: Iterable[Sequence[int]], num_words: int, times: int) -> Iterator[Sequence[int]]:
    """Captions with a word that has not been shown so many times yet.

    >>> list(telling_captions([[0, 1], [0], [1, 0], [2]], num_words=3, times=1))
    [[0, 1], [2]]
    """
    shown = [0] * num_words
    for caption in captions:
        if any(shown[word] < times for word in caption):
            for word in caption:
                shown[word] += 1
            yield caption
