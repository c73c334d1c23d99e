// The reducer: (state, action) -> state. Document edits are in document_reducers.js.

import { documentReducers } from "./document_reducers.js";
import { fillNames } from "./control.js";
import { emptyDocument, requestKey } from "./document.js";
import { addEntry } from "./history.js";
import { findEntry, needsSuggestion, newEntry, reduceEntry, syncEntry } from "./images.js";
import { suppressDuplicates } from "./proposals.js";
import { currentDocument, initialState } from "./state.js";
import { announce, requestFocus } from "./announcements.js";
import { closeStep, newTimeline, redo, undo } from "./timeline.js";

/** An action with `id` is about that image, which need not be open. */
export function reduce(state, action) {
  if (action.id === undefined || action.id === state.image?.id) return syncEntry(reduceOpen(state, action));
  return reduceEntry(state, action.id, (other) => reduceOpen(other, action));
}

function reduceOpen(state, action) {
  const reducer = reducers[action.type] ?? documentReducers[action.type];
  if (!reducer) throw new Error(`unknown action ${action.type}`);
  const next = reducer(state, action);
  return next.timeline === state.timeline && next.result === state.result ? next : recordCaption(next);
}

/** If the result belongs to the current document, take over its class names and add it to the history. */
function recordCaption(state) {
  const document = currentDocument(state);
  const { result } = state;
  if (!result || result.captions.length === 0 || result.key !== requestKey(document)) return state;
  const sets = fillNames(document.sets, result.captions[0].classes);
  const present = { ...state.timeline.present, document: { ...document, sets } };
  return { ...state, timeline: { ...state.timeline, present }, history: addEntry(state.history, present, result) };
}

const IDLE = { draft: null, dragged: null, band: null, mode: "point", highlight: null, lifted: null, renaming: null };

/** The state without an open image. */
const withoutImage = (state) => ({
  ...initialState(state.theme),
  server: state.server,
  images: state.images,
  storage: state.storage,
  pendingControl: state.pendingControl,
  showsProposals: state.showsProposals,
  message: state.message,
});

/** Undo or redo; drops the selection if its set is gone. */
function timeTravel(state, timeline, verb) {
  if (timeline.present === state.timeline.present) return announce(state, `Nothing to ${verb}`, true);
  const step = verb === "undo" ? state.timeline.present : timeline.present;
  const selected = timeline.present.document.sets.some((set) => set.id === state.selected) ? state.selected : null;
  return announce(
    { ...state, ...IDLE, timeline, selected },
    `${verb === "undo" ? "Undone" : "Redone"}: ${step.label}`,
    true,
  );
}

const reducers = {
  healthReceived: (state, { server }) => ({ ...state, server }),

  /** Add images to the list; `document` is the control of a link. */
  imagesAdded: (state, { images, document = emptyDocument() }) => ({
    ...state,
    error: null,
    images: [...state.images, ...images.map((image) => newEntry(image, document))],
  }),
  imagesRestored: (state, { entries }) => ({
    ...state,
    images: [...entries.filter(({ image }) => !findEntry(state, image.id)), ...state.images],
  }),
  imageShown: (state, { show }) => ({ ...withoutImage(state), ...findEntry(state, show) }),
  startShown: withoutImage,
  imageRemoved: (state, { remove }) => {
    const images = state.images.filter(({ image }) => image.id !== remove);
    const next = state.image?.id === remove ? withoutImage(state) : state;
    return announce({ ...next, images }, `${findEntry(state, remove).image.name} removed`, true);
  },
  storageChanged: (state, { storage }) =>
    state.storage === storage || (state.storage === "failed" && storage === "saving") ? state : { ...state, storage },
  controlPending: (state, { pendingControl }) => ({ ...withoutImage(state), pendingControl }),

  detectStarted: (state) => ({ ...state, detectStatus: "waiting", error: null }),

  /** Proposals arrived, with the image's hash, which is compared with that of a pending control file. */
  detected: (state, { hash, proposals: found }) => {
    const proposals = suppressDuplicates(found);
    const next = { ...state, detectStatus: "ready", proposals, image: { ...state.image, hash } };
    if (!state.pendingControl)
      return announce(next, proposals.length ? `${proposals.length} regions found` : "No region found");
    if (state.pendingControl.image.id !== hash) return announce(next, "The saved regions belong to another image", true);
    return announce(
      { ...next, pendingControl: null, timeline: newTimeline(state.pendingControl.document) },
      "Saved regions opened",
      true,
    );
  },

  /** Regions chosen automatically, unless the user was faster; they are the start of the undo history. */
  suggested: (state, { sets }) =>
    needsSuggestion(state)
      ? { ...state, timeline: newTimeline({ ...currentDocument(state), sets, suggested: true }) }
      : state,

  errorShown: (state, { error }) => ({ ...state, error }),
  detectFailed: (state, { error }) => ({ ...state, detectStatus: "failed", error }),

  /** Focus selects a set, except in merge mode. */
  setFocused: (state, { set }) =>
    state.mode === "merge" || state.selected === set ? state : { ...state, selected: set },
  setSelected: (state, { set }) => (state.selected === set ? state : { ...state, selected: set }),
  highlighted: (state, { highlight }) =>
    JSON.stringify(highlight) === JSON.stringify(state.highlight) ? state : { ...state, highlight },
  modeSet: (state, { mode, message }) =>
    message ? announce({ ...state, mode, band: null }, message) : { ...state, mode, band: null },
  proposalsShown: (state, { shows }) => ({ ...state, showsProposals: shows }),
  renamingSet: (state, { set }) =>
    set === null
      ? { ...state, renaming: null }
      : requestFocus({ ...state, renaming: set, selected: set, pinnedWord: null }, "rename"),
  wordPinned: (state, { word }) => ({ ...state, pinnedWord: word }),
  themeSet: (state, { theme }) => ({ ...state, theme }),
  focusRequested: (state, { name }) => requestFocus(state, name),
  announced: (state, { text, shown }) => announce(state, text, shown),

  bandDrawn: (state, { band }) => ({ ...state, band }),
  draftChanged: (state, { sets, dragged = null }) => ({ ...state, draft: sets, dragged }),
  cancelled: (state) => ({ ...state, ...IDLE, focus: state.focus }),
  lifted: (state, { set, text }) => announce({ ...state, lifted: set }, text),

  undone: (state) => timeTravel(state, undo(state.timeline), "undo"),
  redone: (state) => timeTravel(state, redo(state.timeline), "redo"),
  settled: (state) => ({ ...state, timeline: closeStep(state.timeline) }),

  captionRequested: (state) => ({ ...state, captionStatus: "waiting", error: null }),
  captionFailed: (state, { error }) => ({ ...state, captionStatus: "failed", error }),
  captionCleared: (state) => ({
    ...state,
    captionStatus: "idle",
    result: null,
    error: null,
    alternatives: null,
    highlight: null,
    pinnedWord: null,
  }),

  captionReceived: (state, { key, hash, sets, captions }) => ({
    ...state,
    image: state.image.hash === hash ? state.image : { ...state.image, hash },
    result: { key, sets, captions, chosen: 0 },
    captionStatus: "idle",
    error: null,
    highlight: state.highlight?.word >= (captions[0]?.words.length ?? 0) ? null : state.highlight,
    pinnedWord: key === state.result?.key ? state.pinnedWord : null,
  }),

  captionSelected: (state, { chosen }) => ({ ...state, result: { ...state.result, chosen }, highlight: null, pinnedWord: null }),

  alternativesRequested: (state, { key, sets }) => ({
    ...state,
    alternatives: { key, sets, captions: [], status: "waiting" },
  }),
  alternativesReceived: (state, { key, captions }) => {
    if (state.alternatives?.key !== key) return state;
    const text = captions.length ? `${captions.length} captions in other orders` : "No other order gives another caption";
    return announce({ ...state, alternatives: { ...state.alternatives, captions, status: "ready" } }, text);
  },
  alternativesFailed: (state, { key, error }) =>
    state.alternatives?.key === key
      ? announce({ ...state, alternatives: { ...state.alternatives, status: "failed", error } }, error)
      : state,
};
