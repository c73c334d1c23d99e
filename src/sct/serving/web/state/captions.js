// Captions as they came, made ready to be shown: stretches of words that wear a region's colour, or none.

/** Words in stretches: a chunk is {set, words}, what stands between {set: null, words}. Words keep their place. */
export function stretches(caption) {
  const found = [];
  let place = 0;
  const until = (end, set) => {
    const words = caption.words.slice(place, end).map((word, index) => ({ ...word, place: place + index }));
    if (words.length > 0) found.push({ set, words });
    place = Math.max(place, end);
  };
  for (const chunk of [...caption.chunks].sort((one, other) => one.words[0] - other.words[0])) {
    until(chunk.words[0], null);
    until(chunk.words[1], chunk.region_set);
  }
  until(caption.words.length, null);
  return found;
}

/** The mean probability of a word and its shift; the end of the sentence counts as a word. */
export const sureness = (caption) => Math.exp(caption.log_prob / (caption.words.length + 1));

/** In words, which regions a caption of another way talks about, of so many that were pointed at. */
export function wayOf(caption, count) {
  const sets = caption.order?.sets ?? [];
  const missing = Array.from({ length: count }, (_, place) => place).filter((place) => !sets.includes(place));
  const order = sets.map((place) => place + 1).join(" → ");
  return missing.length === 0 ? order : `${order}, without ${missing.map((place) => place + 1).join(" and ")}`;
}
