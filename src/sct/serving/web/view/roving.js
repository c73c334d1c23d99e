// Roving tabindex: arrow keys, Home and End move the focus within a list.

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Position after a key press; null for other keys. */
export function nextPosition(key, position, count) {
  if (count === 0) return null;
  if (key in STEPS) return Math.min(Math.max(position + STEPS[key], 0), count - 1);
  if (key === "Home") return 0;
  return key === "End" ? count - 1 : null;
}

/** Move the focus along the items of the event's list; returns whether it handled the key. */
export function rove(event, selector) {
  const items = [...event.currentTarget.querySelectorAll(selector)];
  const position = items.indexOf(event.target.closest(selector));
  const isOther = event.ctrlKey || event.metaKey || event.altKey || position < 0;
  const next = isOther ? null : nextPosition(event.key, position, items.length);
  if (next === null) return false;
  event.preventDefault();
  items[next].focus();
  return true;
}
