// The list of images: each keeps its own control, captions and undo history.
//
// An entry holds the fields below. Those of the open image are the fields of the state itself, copied to its entry after
// every action.

import { requestKey } from "./document.js";
import { newTimeline } from "./timeline.js";

const FIELDS = [
  "image",
  "detectStatus",
  "proposals",
  "timeline",
  "result",
  "captionStatus",
  "error",
  "alternatives",
  "history",
];

const pick = (state) => Object.fromEntries(FIELDS.map((name) => [name, state[name]]));

export const newEntry = (image, document) => ({
  image,
  detectStatus: "waiting",
  proposals: [],
  timeline: newTimeline(document),
  result: null,
  captionStatus: "idle",
  error: null,
  alternatives: null,
  history: [],
});

export const findEntry = (state, id) => state.images.find(({ image }) => image.id === id) ?? null;

const replaceEntry = (images, id, entry) => images.map((each) => (each.image.id === id ? entry : each));

/** Copy the fields of the open image to its entry. */
export function syncEntry(state) {
  const entry = state.image && findEntry(state, state.image.id);
  if (!entry || FIELDS.every((name) => entry[name] === state[name])) return state;
  return { ...state, images: replaceEntry(state.images, state.image.id, pick(state)) };
}

/** Reduce an action as if an image that is not open were open; only its entry changes. */
export function reduceEntry(state, id, reducer) {
  const entry = findEntry(state, id);
  if (!entry) return state;
  const next = reducer({ ...state, ...entry });
  return {
    ...state,
    pendingControl: next.pendingControl,
    images: replaceEntry(state.images, id, pick(next)),
  };
}

/** Whether regions should be suggested: nobody has edited the control yet. */
export const needsSuggestion = ({ detectStatus, timeline: { past, present, future } }) =>
  detectStatus === "ready" && past.length + future.length === 0 && present.document.sets.length === 0;

/** Whether the caption of an entry is missing or belongs to another control. */
export function needsCaption({ timeline, result }) {
  const { document } = timeline.present;
  return document.sets.length > 0 && result?.key !== requestKey(document);
}

/** Caption of an entry if it belongs to its control, else null. */
export const entryCaption = (entry) => (needsCaption(entry) ? null : (entry.result?.captions[entry.result.chosen] ?? null));
