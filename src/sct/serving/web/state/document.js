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
