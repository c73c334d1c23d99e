// Captions of this picture that were made so far, to be seen side by side: one for each control.

import { questionKey } from "./document.js";

const MOST = 24;

/** Newest first. A control that was there keeps its place; steps taken in one go (a box on its way) leave one. */
export function remembered(history, { document, number }, answer) {
  const { key, captions } = answer;
  if (history.some((entry) => entry.key === key)) return history;
  const others = history[0]?.number === number ? history.slice(1) : history;
  return [{ key, number, document, caption: captions[0] }, ...others].slice(0, MOST);
}

export const isPresent = (entry, document) => entry.key === questionKey(document);
