// The whole state of the page, as one value that is never changed in place.

import { overlap } from "./boxes.js";
import { boxesOf } from "./control.js";
import { emptyDocument, questionKey } from "./document.js";
import { begun } from "./timeline.js";

const SAME_PLACE = 0.9;

export const initialState = (theme = "auto") => ({
  server: null, // {can_see, can_sort, limits}, when it has told
  picture: null, // {name, width, height, url, sample, hash}; the hash comes with the first answer
  wanted: null, // {hash, name, document} of a link whose picture is not here yet
  looking: "idle", // whether proposals are there: idle, waiting, ready, failed
  proposals: [], // {box, name, score}
  timeline: begun(emptyDocument()),
  draft: null, // sets while something is being dragged
  dragged: null, // id of the set whose chip is dragged
  band: null, // the box while it is being drawn
  selected: null, // id of a set
  mode: "point", // or "draw", or "merge": what a click on the picture does
  lit: null, // {set} or {proposal} or {word}: what is pointed at
  lifted: null, // id of the set that arrow keys carry
  answer: null, // {key, sets, captions, chosen}
  asking: "idle", // idle, waiting, failed
  trouble: null, // one sentence
  ways: null, // {key, sets, captions, status}
  history: [],
  showsProposals: true,
  theme,
  focus: null, // {name, stamp}: what is to have the focus next
  message: { text: "", shown: false, stamp: 0 }, // told to a screen reader, and shown for a while if so
});

export const documentOf = (state) => state.timeline.present.document;

/** The region sets as they are seen now, also while one is dragged. */
export const setsOf = (state) => state.draft ?? documentOf(state).sets;

export const shownDocument = (state) => ({ ...documentOf(state), sets: setsOf(state) });

/** Whether the caption that stands there belongs to the control that stands there. */
export const isCurrent = (state) => state.answer !== null && state.answer.key === questionKey(shownDocument(state));

export const captionOf = (state) => state.answer?.captions[state.answer.chosen] ?? null;

/** The place in today's control of a set of the control that an answer was given for; -1 where it is gone. */
export function placeNow(state, answer, number) {
  const id = answer.sets[number]?.id;
  return setsOf(state).findIndex((set) => set.id === id);
}

/** Proposals that nobody has taken yet, with their number among all. */
export function openProposals(state) {
  const taken = boxesOf(setsOf(state));
  return state.proposals
    .map((proposal, number) => ({ ...proposal, number }))
    .filter(({ box }) => !taken.some((other) => overlap(box, other.box) > SAME_PLACE));
}

export const limitsOf = (state) => ({ region_sets: 10, boxes: 40, ...state.server?.limits });
