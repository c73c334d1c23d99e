"""Draw the figures of docs/concepts.md from outputs of the shipped model.

python benchmarks/release/concept_figures.py
"""

from collections.abc import Sequence
from html import escape
from itertools import pairwise, permutations
from pathlib import Path

import torch

import sct
from sct.captioner.grounded_caption import CaptionWord
from sct.sorting.batches import inputs_from_controls
from sct.sorting.pointer_network import PointerSorter

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs/images/concepts"
PHOTO = ROOT / "examples/photos/otters.jpg"
OTTER, WATER, TOY = (197, 100, 600, 290), (0, 0, 640, 255), (79, 30, 180, 70)
NAMES = ("otter", "water", "toy")
COLORS = ("#c62828", "#1565c0", "#2e7d32", "#757575")
_HEIGHT, _LEFT, _STEP = 130, 90, 78


def svg(width: int, height: int, parts: Sequence[str], title: str) -> str:
    """A figure on a white card, legible in the dark theme too."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="13"><title>{escape(title)}</title>'
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def text(x: float, y: float, content: str, *, color: str = "#212121", anchor: str = "middle") -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}" fill="{color}" text-anchor="{anchor}">{escape(content)}</text>'


def bars(words: Sequence[CaptionWord], stacks: Sequence[Sequence[tuple[float, str]]], label: str) -> str:
    """Stacked bars above the words of a caption; words have the colour of their region set."""
    width = _LEFT + _STEP * len(words) + 10
    parts = [text(_LEFT - 12, 30, "1", anchor="end"), text(_LEFT - 12, 30 + _HEIGHT, "0", anchor="end")]
    parts.append(f'<path d="M{_LEFT - 6} 25V{25 + _HEIGHT}H{width - 6}" stroke="#9e9e9e" fill="none"/>')
    parts.append(text(8, 30 + _HEIGHT / 2, label, anchor="start"))
    for number, (word, stack) in enumerate(zip(words, stacks, strict=True)):
        x, top = _LEFT + _STEP * number, float(25 + _HEIGHT)
        for value, color in stack:
            top -= value * _HEIGHT
            parts.append(
                f'<rect x="{x}" y="{top:.1f}" width="{_STEP - 22}" height="{value * _HEIGHT:.1f}" fill="{color}"/>'
            )
        middle = x + (_STEP - 22) / 2
        parts.append(text(middle, 45 + _HEIGHT, word.text, color=COLORS[word.region_set]))
        parts.append(text(middle, top - 4, f"{stack[0][0]:.2f}"))
    return svg(width, _HEIGHT + 60, parts, f"{label}: {' '.join(word.text for word in words)}")


def position_probabilities(captioner: sct.Captioner, control: sct.Control) -> list[list[float]]:
    """Probability of each region set at each position, summed over all orders."""
    assert captioner.sorter is not None
    sorter = captioner.sorter.sorter
    assert isinstance(sorter, PointerSorter)
    network = sorter.network
    inputs = inputs_from_controls([control], [(640, 360)], captioner.sorter.vectors, mode=sorter.mode)
    sets = range(len(control.region_sets))
    table = [[0.0 for _ in sets] for _ in sets]
    with torch.no_grad():
        encoded = network.encode(inputs)
        for order in permutations(sets):
            state, remaining, total = network.init_state(encoded, inputs.mask), inputs.mask.clone(), 0.0
            for chosen in order:
                total += float(network.log_probs(state, encoded, remaining)[0, chosen])
                remaining[0, chosen] = False
                state = network.gru(encoded[:, chosen], state)
            for position, chosen in enumerate(order):
                table[chosen][position] += float(torch.tensor(total).exp())
    return table


def matrix(table: Sequence[Sequence[float]], names: Sequence[str]) -> str:
    """Cells with probabilities, darker where they are larger."""
    side, left, top = 72, 90, 40
    parts = [text(left + side * (column + 0.5), 28, f"position {column + 1}") for column in range(len(table))]
    for row, (values, name) in enumerate(zip(table, names, strict=True)):
        parts.append(text(left - 10, top + side * (row + 0.55), name, color=COLORS[row], anchor="end"))
        for column, value in enumerate(values):
            x, y = left + side * column, top + side * row
            parts.append(
                f'<rect x="{x}" y="{y}" width="{side - 3}" height="{side - 3}" fill="#00796b" '
                f'fill-opacity="{value:.3f}" stroke="#bdbdbd"/>'
            )
            color = "#ffffff" if value > 0.5 else "#212121"
            parts.append(text(x + side / 2 - 1, y + side * 0.55, f"{value:.2f}", color=color))
    return svg(left + side * len(table) + 10, top + side * len(table) + 10, parts, "Order of region sets")


def main() -> None:
    """Caption a photograph and draw what the model did."""
    OUT.mkdir(parents=True, exist_ok=True)
    captioner = sct.load()
    orders = ([OTTER, WATER], [OTTER, TOY, WATER])
    drawn = [captioner.caption(PHOTO, regions) for regions in orders]
    titles = ("control: otter, water", "control: otter, toy, water")
    drawing = sct.show(PHOTO, *drawn, titles=titles).image
    drawing.convert("RGB").save(OUT / "control.webp", quality=82, method=6)
    caption = drawn[0]
    gate = [[(word.shift_probability, COLORS[word.region_set])] for word in caption.words]
    (OUT / "gate.svg").write_text(bars(caption.words, gate, "P(shift)"), encoding="utf-8")
    attention = [
        [(sum(word.attention), COLORS[word.region_set]), (word.sentinel_weight, "#bdbdbd")] for word in caption.words
    ]
    (OUT / "sentinel.svg").write_text(bars(caption.words, attention, "attention"), encoding="utf-8")
    unordered = captioner.caption(PHOTO, [OTTER, WATER, TOY], ordered=False)
    assert unordered.control is not None
    table = position_probabilities(captioner, unordered.control)
    assert all(abs(sum(row) - 1) < 1e-3 for row in table)
    (OUT / "sorter.svg").write_text(matrix(table, NAMES), encoding="utf-8")
    shifts = [word.text for word, following in pairwise(caption.words) if word.region_set != following.region_set]
    print(f"{caption.text!r} shifts after {shifts}; order of the set: {unordered.order}")


if __name__ == "__main__":
    main()
