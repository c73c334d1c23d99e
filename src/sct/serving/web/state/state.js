// The state of the page (immutable) and its selectors.

import { boxIou } from "./boxes.js";
import { allBoxes } from "./control.js";
import { emptyDocument, requestKey } from "./document.js";
import { newTimeline } from "./timeline.js";

const SAME_BOX_IOU = 0.9;

export const initialState = (theme = "auto") => ({
  server: null, // answer of /v1/health
  image: null, // {name, width, height, url, sample, hash}; hash: null until the server answered
  pendingLink: null, // {hash, name, document} of a link whose image has not been opened yet
  detectStatus: "idle", // idle, waiting, ready or failed
  proposals: [], // {box, name, score}
  timeline: newTimeline(emptyDocument()),
  draft: null, // region sets during a drag
  dragged: null, // id of the set whose chip is being dragged
  band: null, // box being drawn (rubber band)
  selected: null, // id of the selected set
  mode: "point", // or "draw" or "merge": what a click on the image does
  highlight: null, // {set}, {proposal} or {word} under the pointer or focus
  lifted: null, // id of the set that arrow keys move
  result: null, // {key, sets, captions, chosen}
  captionStatus: "idle", // idle, waiting or failed
  error: null, // message to show
  alternatives: null, // {key, sets, captions, status}
  history: [],
  showsProposals: true,
  theme,
  focus: null, // {name, stamp}: element to focus after the next render
  message: { text: "", shown: false, stamp: 0 }, // announcement; shown: also as a toast
});

export const currentDocument = (state) => state.timeline.present.document;

/** The region sets on screen: the draft during a drag, else those of the document. */
export const shownSets = (state) => state.draft ?? currentDocument(state).sets;

export const shownDocument = (state) => ({ ...currentDocument(state), sets: shownSets(state) });

/** Whether the result belongs to the control on screen. */
export const isCaptionCurrent = (state) =>
  state.result !== null && state.result.key === requestKey(shownDocument(state));

export const selectedCaption = (state) => state.result?.captions[state.result.chosen] ?? null;

/** Position in the current control of set `number` of a result; -1 if it was removed. */
export function currentPosition(state, result, number) {
  const id = result.sets[number]?.id;
  return shownSets(state).findIndex((set) => set.id === id);
}

/** Proposals that are not in the control yet, with their index among all. */
export function unusedProposals(state) {
  const used = allBoxes(shownSets(state));
  return state.proposals
    .map((proposal, number) => ({ ...proposal, number }))
    .filter(({ box }) => !used.some((other) => boxIou(box, other.box) > SAME_BOX_IOU));
}

export const serverLimits = (state) => ({ region_sets: 10, boxes: 40, ...state.server?.limits });
