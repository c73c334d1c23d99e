// What a state asks of the page besides being drawn: words for a screen reader, a place for the focus.

const stamped = (last) => (last?.stamp ?? 0) + 1; // the same words, or the same place, twice in a row are two requests

/** Told to who listens; `shown` for a while to who sees, where nothing else on the page shows it. */
export const told = (state, text, shown = false) => ({
  ...state,
  message: { text, shown, stamp: stamped(state.message) },
});
export const focused = (state, name) => ({ ...state, focus: { name, stamp: stamped(state.focus) } });
