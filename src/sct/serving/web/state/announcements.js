// One-shot requests in the state: screen-reader announcements and focus changes.

const nextStamp = (last) => (last?.stamp ?? 0) + 1; // tells two equal requests in a row apart

/** Announce a text to screen readers; `shown` also displays it as a toast. */
export const announce = (state, text, shown = false) => ({
  ...state,
  message: { text, shown, stamp: nextStamp(state.message) },
});
export const requestFocus = (state, name) => ({ ...state, focus: { name, stamp: nextStamp(state.focus) } });
