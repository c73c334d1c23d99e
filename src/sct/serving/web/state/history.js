// History of captions of the current image, one per control.

import { requestKey } from "./document.js";

const MAX_ENTRIES = 24;

/** Add a caption, newest first, unless its control is there already; a merged undo step keeps one entry. */
export function addEntry(history, { document, number }, result) {
  const { key, captions } = result;
  if (history.some((entry) => entry.key === key)) return history;
  const others = history[0]?.number === number ? history.slice(1) : history;
  return [{ key, number, document, caption: captions[0] }, ...others].slice(0, MAX_ENTRIES);
}

export const isCurrentEntry = (entry, document) => entry.key === requestKey(document);
