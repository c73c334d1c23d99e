// Captions prepared for display: spans of words that share a region's colour, or none.

/** Split a caption into spans: noun chunks {set, words} and the words between them {set: null, words}. */
export function textSpans(caption) {
  const found = [];
  let position = 0;
  const until = (end, set) => {
    const words = caption.words.slice(position, end).map((word, index) => ({ ...word, position: position + index }));
    if (words.length > 0) found.push({ set, words });
    position = Math.max(position, end);
  };
  for (const chunk of [...caption.chunks].sort((one, other) => one.words[0] - other.words[0])) {
    until(chunk.words[0], null);
    until(chunk.words[1], chunk.region_set);
  }
  until(caption.words.length, null);
  return found;
}

/** Geometric mean probability per word (with its shift), the end of the sentence included. */
export const meanProbability = (caption) => Math.exp(caption.log_prob / (caption.words.length + 1));

/** Order of an alternative caption as text, e.g. "2 → 1, without 3", for a control of `count` region sets. */
export function describeOrder(caption, count) {
  const sets = caption.order?.sets ?? [];
  const missing = [...Array(count).keys()].filter((position) => !sets.includes(position));
  const order = sets.map((position) => position + 1).join(" → ");
  return missing.length === 0 ? order : `${order}, without ${missing.map((position) => position + 1).join(" and ")}`;
}
