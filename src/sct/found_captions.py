"""From what a search found to grounded captions."""

import torch
from jaxtyping import Float
from torch import Tensor

from sct.decoding import Decoded, Settings
from sct.grounded_caption import GroundedCaption, SpokenWord, grounded, ungrounded
from sct.language.vocabulary import Vocabulary
from sct.model.explain import Explanation
from sct.model.inputs import ControlInputs


def found_captions(
    decoded: Decoded,
    explanation: Explanation | None,
    inputs: ControlInputs,
    vocabulary: Vocabulary,
    log_probs: Float[Tensor, "examples n_best"],
    nouns: frozenset[str],
) -> list[list[GroundedCaption]]:
    """Turn tensors into records; what stands for a caption that could not be found is left out.

    Without an explanation words rest on nothing, and chunks are grounded nowhere.
    """
    examples, n_best, _ = decoded.words.shape
    words, scores = decoded.words.tolist(), log_probs.tolist()
    spoken = (decoded.spoken & (decoded.words != Settings().end)).tolist()
    alive = (decoded.scores > -torch.inf).tolist()
    if explanation is None:
        return [
            [
                ungrounded([vocabulary.words[word] for word, is_said in zip(*said, strict=True) if is_said], score)
                for *said, score, is_alive in zip(words[row], spoken[row], scores[row], alive[row], strict=True)
                if is_alive
            ]
            for row in range(examples)
        ]
    sizes, num_sets = inputs.set_mask.sum(-1).tolist(), inputs.num_slots.tolist()
    pointer, attention = explanation.pointer.tolist(), explanation.attention.tolist()
    sentinel, shift = explanation.sentinel_weight.tolist(), explanation.shift_probability.tolist()
    captions = []
    for example in range(examples):
        found = []
        for rank in range(n_best):
            row = example * n_best + rank
            said = []
            for time in range(sum(spoken[example][rank])):
                region_set = min(pointer[row][time], num_sets[example] - 1)
                said.append(
                    SpokenWord(
                        vocabulary.words[words[example][rank][time]],
                        region_set,
                        tuple(attention[row][time][: sizes[example][region_set]]),
                        sentinel[row][time],
                        shift[row][time],
                    )
                )
            # With the step after the last word, which says the end.
            is_over = [place >= num_sets[example] for place in pointer[row][: len(said) + 1]]
            over_at = is_over.index(True) if True in is_over else None
            if alive[example][rank]:
                found.append(grounded(said, scores[example][rank], nouns, over_at=over_at))
        captions.append(found)
    return captions
