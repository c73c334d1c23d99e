// The state of the page (immutable) and its selectors.

import { boxIou } from "./boxes.js";
import { allBoxes } from "./control.js";
import { emptyDocument, requestKey } from "./document.js";
import { rankAt } from "./proposals.js";
import { newTimeline } from "./timeline.js";

const SAME_BOX_IOU = 0.9;

export const initialState = (theme = "auto") => ({
  server: null, // answer of /v1/health
  images: [], // all images: entries of images.js
  storage: "idle", // idle, saving, saved or failed: the images in the browser's storage
  image: null, // {id, blob, name, width, height, url, sample, hash}; hash: null until the server answered
  pendingControl: null, // {image, document} of a control file whose image has not been opened yet
  detectStatus: "idle", // idle, waiting, ready or failed
  proposals: [], // {box, name, score}
  timeline: newTimeline(emptyDocument()),
  draft: null, // region sets during a drag
  dragged: null, // id of the set whose chip is being dragged
  band: null, // box being drawn (rubber band)
  selected: null, // id of the selected set
  mode: "point", // or "draw" or "merge": what a click on the image does
  highlight: null, // {set}, {proposal} or {word} under the pointer or focus
  clicked: null, // {point, boxId, choices, index, number}: regions that further clicks at the same place step through
  renaming: null, // id of the set whose name is being edited
  pinnedWord: null, // position of the word of the caption whose actions are shown
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

/** Proposal or box of the control that a click at a point of the image means; null: neither. */
export function targetAt(state, point) {
  const isMeant = (set) => state.mode !== "merge" || set.id !== state.selected; // a region is not merged with itself
  const boxes = shownSets(state)
    .filter(isMeant)
    .flatMap((set) => set.boxes.map(({ box }) => ({ box, score: 1, set: set.id, proposal: null })));
  const proposals = unusedProposals(state).map((each) => ({ ...each, set: null, proposal: each.number }));
  return rankAt([...boxes, ...proposals], point, state.image)[0] ?? null;
}

/** Whether a click at a point steps to the next region there. */
export const isSteppingAt = ({ clicked, timeline, mode }, [x, y], tolerance) =>
  clicked !== null &&
  mode === "point" &&
  clicked.number === timeline.present.number &&
  Math.hypot(clicked.point[0] - x, clicked.point[1] - y) <= tolerance;

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

export const serverLimits = (state) => ({ region_sets: 10, boxes: 10, ...state.server?.limits });
