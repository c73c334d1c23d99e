// One tab stop for a list: arrow keys go from item to item, Home and End to the first and the last.

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** The place that a key leads to from another; null where the key means nothing here. */
export function placeAfter(key, place, count) {
  if (count === 0) return null;
  if (key in STEPS) return Math.min(Math.max(place + STEPS[key], 0), count - 1);
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : null;
}

/** Move the focus along the items of the list that an event came from; true where it did. */
export function rove(event, selector) {
  const items = [...event.currentTarget.querySelectorAll(selector)];
  const place = items.indexOf(event.target.closest(selector));
  const next =
    event.ctrlKey || event.metaKey || event.altKey || place < 0 ? null : placeAfter(event.key, place, items.length);
  if (next === null) return false;
  event.preventDefault();
  items[next].focus();
  return true;
}
