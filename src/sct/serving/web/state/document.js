// The document: region sets, order and options; the part of the state that is undone, linked to and kept in history.

export const OPTIONS = {
  cover: { value: true },
  max_length: { value: 20, min: 4, max: 40 },
  beam_size: { value: 5, min: 1, max: 10 },
};
const N_BEST = 5;

export const defaultOptions = () =>
  Object.fromEntries(Object.entries(OPTIONS).map(([name, { value }]) => [name, value]));

export const emptyDocument = () => ({ sets: [], ordered: true, options: defaultOptions() });

/** Clamp an option to its range; the default if it is not a number. */
export function clampOption(name, value) {
  const { value: fallback, min, max } = OPTIONS[name];
  if (typeof fallback === "boolean") return Boolean(value);
  const number = Math.round(Number(value));
  return Number.isFinite(number) ? Math.min(Math.max(number, min), max) : fallback;
}

/** Request body. It has no class names, so renaming a region does not invalidate a caption. */
export function captionRequest({ sets, ordered, options }) {
  return {
    control: sets.map((set) => set.boxes.map(({ box }) => box)),
    ordered,
    cover: options.cover,
    max_length: options.max_length,
    beam_size: options.beam_size,
    n_best: Math.min(N_BEST, options.beam_size),
  };
}

export const requestKey = (document) => JSON.stringify(captionRequest(document));
