// The document: region sets, words, order and options; the part of the state that is undone, linked to and saved.

export const OPTIONS = {
  cover: { value: true },
  max_length: { value: 20, min: 4, max: 40 },
  beam_size: { value: 5, min: 1, max: 10 },
};
const N_BEST = 5;
const MAX_WORDS = 10;
const MAX_WORD_CHARACTERS = 40;

export const defaultOptions = () =>
  Object.fromEntries(Object.entries(OPTIONS).map(([name, { value }]) => [name, value]));

/** `suggested`: the regions were chosen automatically and not edited yet. */
export const emptyDocument = () => ({
  sets: [],
  ordered: true,
  options: defaultOptions(),
  banned: [],
  required: [],
  suggested: false,
});

/** Clamp an option to its range; the default if it is not a number. */
export function clampOption(name, value) {
  const { value: fallback, min, max } = OPTIONS[name];
  if (typeof fallback === "boolean") return Boolean(value);
  const number = Math.round(Number(value));
  return Number.isFinite(number) ? Math.min(Math.max(number, min), max) : fallback;
}

/** Words of a text in lower case, without duplicates and punctuation around them. */
export function parseWords(text) {
  const words = String(text)
    .toLowerCase()
    .split(/[\s,;]+/)
    .map((word) => word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, ""))
    .filter((word) => word !== "" && word.length <= MAX_WORD_CHARACTERS);
  return [...new Set(words)].slice(0, MAX_WORDS);
}

/** A refused word and the known words that the server offers in its place, from an error message; null if none. */
export function offeredWords(error) {
  const found = /^word '([^']+)' .*: did you mean ([^?]+)\?/.exec(error ?? "");
  return found ? { word: found[1], offered: parseWords(found[2]) } : null;
}

/** Replace a word in the names of regions and in the word lists. */
export function replaceWord(document, word, by) {
  const swap = (words) => [...new Set(words.map((each) => (each.toLowerCase() === word.toLowerCase() ? by : each)))];
  const rename = (given) => given && given.split(" ").map((each) => swap([each])[0]).join(" ");
  return {
    ...document,
    sets: document.sets.map((set) => ({
      ...set,
      boxes: set.boxes.map((box) => ({ ...box, given: rename(box.given) })),
    })),
    banned: swap(document.banned),
    required: swap(document.required),
  };
}

/** Request body. Names that the user gave are in it, detected ones are not. */
export function captionRequest({ sets, ordered, options, banned, required }) {
  const classes = sets.map((set) => set.boxes.map(({ given }) => given));
  return {
    control: sets.map((set) => set.boxes.map(({ box }) => box)),
    ...(classes.flat().some(Boolean) && { classes }),
    ...(banned.length > 0 && { banned_words: banned }),
    ...(required.length > 0 && { required_words: required }),
    ordered,
    cover: options.cover,
    max_length: options.max_length,
    beam_size: options.beam_size,
    n_best: Math.min(N_BEST, options.beam_size),
  };
}

export const requestKey = (document) => JSON.stringify(captionRequest(document));
