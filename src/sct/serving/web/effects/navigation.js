// Browser history: the start screen and every image are entries, so that Back stays in the studio.
//
// The state of a history entry is {image: id}, or {image: null} for the start screen; it survives a reload. The URL of a
// sample image has its document, too (state/link.js).

import { findEntry } from "../state/images.js";
import { encodeLink } from "../state/link.js";
import { currentDocument } from "../state/state.js";

export function createNavigation({ getState, onNavigate, onLink }) {
  const stateOf = ({ image }) => ({ image: image?.id ?? null });
  const urlOf = (state) =>
    state.image?.sample ? `#${encodeLink(state.image, currentDocument(state))}` : location.pathname + location.search;
  let isStarted = false; // before, the state does not have the saved images yet

  return {
    start: () => (isStarted = true),
    /** The image of the current history entry, if it is still in the list. */
    savedImage() {
      const id = history.state?.image ?? null;
      return id !== null && findEntry(getState(), id) ? id : null;
    },
    push: () => history.pushState(stateOf(getState()), "", urlOf(getState())),
    replace: () => isStarted && history.replaceState(stateOf(getState()), "", urlOf(getState())),
    listen() {
      window.addEventListener("popstate", ({ state }) => {
        if (state === null && location.hash) onLink(); // the user edited the address
        else onNavigate(state?.image ?? null);
      });
    },
  };
}
