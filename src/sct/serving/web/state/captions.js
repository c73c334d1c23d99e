// Captions prepared for display: spans of words that share a region's colour, and what is said about them.

import { givenName } from "./control.js";

/** Split a caption into spans: noun chunks {set, fits, words} and the words between them {set: null, words}. */
export function textSpans(caption) {
  const found = [];
  let position = 0;
  const until = (end, set, fits = null) => {
    const words = caption.words.slice(position, end).map((word, index) => ({ ...word, position: position + index }));
    if (words.length > 0) found.push({ set, fits, words });
    position = Math.max(position, end);
  };
  for (const chunk of [...caption.chunks].sort((one, other) => one.words[0] - other.words[0])) {
    until(chunk.words[0], null);
    until(chunk.words[1], chunk.region_set, chunk.fits ?? null);
  }
  until(caption.words.length, null);
  return found;
}

/** The noun chunk around a word, or null. */
export const chunkOfWord = (caption, position) =>
  caption.chunks.find(({ words: [start, end] }) => start <= position && position < end) ?? null;

const FIT_WORDS = [
  [0.2, "probably does not fit"],
  [0.5, "may not fit"],
  [0.8, "probably fits"],
  [1, "fits"],
];

/**
 * Whether a noun chunk more likely than not does not fit its region, one of the sets of the result; false if the server
 * does not say, or if the user named the region.
 */
export const isDoubtful = ({ fits, region_set: set }, sets) =>
  typeof fits === "number" && fits < 0.5 && !(sets[set] && givenName(sets[set]));

/** `fits`, a calibrated probability, in words; null if the server does not say. */
export const describeFit = ({ fits }) =>
  typeof fits === "number" ? FIT_WORDS.find(([upTo]) => fits < upTo || upTo === 1)[1] : null;

/** Where a word comes from: the region, or the words before it (the weight of the visual sentinel). */
export function describeSource({ sentinel_weight: fromSentence }, region) {
  if (fromSentence < 0.35) return `comes from looking at ${region}`;
  return fromSentence < 0.65
    ? `comes partly from ${region}, partly from the sentence so far`
    : "follows mostly from the sentence so far";
}

/** Order of an alternative caption as text, e.g. "2 → 1, without 3", for a control of `count` region sets. */
export function describeOrder(caption, count) {
  const sets = caption.order?.sets ?? [];
  const missing = [...Array(count).keys()].filter((position) => !sets.includes(position));
  const order = sets.map((position) => position + 1).join(" → ");
  return missing.length === 0 ? order : `${order}, without ${missing.map((position) => position + 1).join(" and ")}`;
}
