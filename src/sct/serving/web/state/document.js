// The document: all that a person decides about a caption, and so all that is undone, linked to and remembered.

export const OPTIONS = {
  cover: { value: true },
  longest: { value: 20, least: 4, most: 40 },
  beam: { value: 5, least: 1, most: 10 },
};
const N_BEST = 5;

export const defaultOptions = () =>
  Object.fromEntries(Object.entries(OPTIONS).map(([name, { value }]) => [name, value]));

export const emptyDocument = () => ({ sets: [], ordered: true, options: defaultOptions() });

/** A value that an option may have, nearest to the one that came; its default for what is no number. */
export function optionValue(name, value) {
  const { value: standard, least, most } = OPTIONS[name];
  if (typeof standard === "boolean") return Boolean(value);
  const number = Math.round(Number(value));
  return Number.isFinite(number) ? Math.min(Math.max(number, least), most) : standard;
}

/** What is asked of the captioner; what regions are called is not, so other names change no answer. */
export function question({ sets, ordered, options }) {
  return {
    control: sets.map((set) => set.boxes.map(({ box }) => box)),
    ordered,
    cover: options.cover,
    max_length: options.longest,
    beam: options.beam,
    n_best: Math.min(N_BEST, options.beam),
  };
}

export const questionKey = (document) => JSON.stringify(question(document));
