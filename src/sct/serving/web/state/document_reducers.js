// Reducers of document edits. Each adds an undo step with a label.

import { centerBox } from "./boxes.js";
import {
  addBox,
  addSet,
  allBoxes,
  findSet,
  findSetOfBox,
  indexOfSet,
  mergeSets,
  moveSet,
  removeBox,
  removeSet,
  setBox,
  setLabel,
  splitSet,
} from "./control.js";
import { clampOption, emptyDocument } from "./document.js";
import { currentDocument, serverLimits } from "./state.js";
import { announce, requestFocus } from "./announcements.js";
import { pushStep } from "./timeline.js";

function commit(state, change, label, kind = null) {
  const document = { ...currentDocument(state), ...change };
  return {
    ...state,
    timeline: pushStep(state.timeline, document, label, kind),
    draft: null,
    dragged: null,
    band: null,
    mode: "point",
  };
}

/** Error message if the control is full, else null. */
function limitError(state, isMerging) {
  const { sets } = currentDocument(state);
  const { region_sets: maxSets, boxes: maxBoxes } = serverLimits(state);
  if (!isMerging && sets.length >= maxSets)
    return `A control has at most ${maxSets} regions: remove or merge one first`;
  return allBoxes(sets).length >= maxBoxes ? `A control has at most ${maxBoxes} boxes: remove one first` : null;
}

/** Add a box as a new region, or to the selected region in merge mode. */
function addRegion(state, box, name) {
  const { sets } = currentDocument(state);
  const isMerging = state.mode === "merge" && findSet(sets, state.selected) !== null;
  const error = limitError(state, isMerging);
  if (error) return announce({ ...state, mode: "point", band: null }, error, true);
  const next = isMerging ? addBox(sets, state.selected, box, name) : addSet(sets, box, name);
  const set = isMerging ? findSet(next, state.selected) : next.at(-1);
  const label = `${name ?? "box"} added as ${isMerging ? "part of " : ""}region ${indexOfSet(next, set.id) + 1}`;
  return announce({ ...commit(state, { sets: next }, label), selected: set.id }, label);
}

/** Id of the set that takes over the selection of a removed one. */
function successor(before, after, id) {
  const position = indexOfSet(before, id);
  return after[Math.min(position, after.length - 1)]?.id ?? null;
}

function commitRemoval(state, sets, label, focus) {
  const { sets: before } = currentDocument(state);
  const selected = findSet(sets, state.selected) ? state.selected : successor(before, sets, state.selected);
  const next = announce({ ...commit(state, { sets }, label), selected, highlight: null, lifted: null }, label);
  return focus ? requestFocus(next, focus) : next;
}

export const documentReducers = {
  boxAdded: (state, { box, name = null }) => addRegion(state, box, name),

  /** Keyboard "new box": add a centered box and focus it. */
  centerBoxAdded: (state) => {
    const next = addRegion(state, centerBox(state.image), null);
    const set = findSet(currentDocument(next).sets, next.selected);
    return next.timeline === state.timeline ? next : requestFocus(next, `box:${set.boxes.at(-1).id}`);
  },

  boxReshaped: (state, { boxId, box, kind = null }) => {
    const { sets } = currentDocument(state);
    const set = findSetOfBox(sets, boxId);
    const label = `region ${indexOfSet(sets, set.id) + 1} ${kind?.startsWith("resize") ? "resized" : "moved"}`;
    return commit(state, { sets: setBox(sets, boxId, box) }, label, kind);
  },

  boxRemoved: (state, { boxId, keepsFocus = false }) => {
    const { sets } = currentDocument(state);
    const set = findSetOfBox(sets, boxId);
    if (set.boxes.length === 1)
      return documentReducers.setRemoved(state, { set: set.id, focus: keepsFocus ? "box" : null });
    const left = removeBox(sets, boxId);
    const label = `box removed from region ${indexOfSet(sets, set.id) + 1}`;
    return commitRemoval(state, left, label, keepsFocus ? `box:${findSet(left, set.id).boxes[0].id}` : null);
  },

  setRemoved: (state, { set: id, focus = null }) => {
    const { sets } = currentDocument(state);
    const left = removeSet(sets, id);
    const next = findSet(left, successor(sets, left, id));
    const label = `region ${indexOfSet(sets, id) + 1} (${setLabel(findSet(sets, id))}) removed`;
    const names = { box: next && `box:${next.boxes[0].id}`, chip: next && `chip:${next.id}` };
    return commitRemoval({ ...state, selected: id }, left, label, focus && (names[focus] ?? "new-box"));
  },

  setsMerged: (state, { into, from }) => {
    const { sets } = currentDocument(state);
    const label = `region ${indexOfSet(sets, from) + 1} merged into region ${indexOfSet(sets, into) + 1}`;
    return announce({ ...commit(state, { sets: mergeSets(sets, into, from) }, label), selected: into }, label);
  },

  setSplit: (state, { set }) => {
    const { sets } = currentDocument(state);
    const label = `region ${indexOfSet(sets, set) + 1} split into ${findSet(sets, set).boxes.length}`;
    return announce(commit(state, { sets: splitSet(sets, set) }, label), label);
  },

  setMoved: (state, { set, position }) => {
    const { sets } = currentDocument(state);
    const next = moveSet(sets, set, position);
    const now = indexOfSet(next, set);
    if (now === indexOfSet(sets, set)) return { ...state, draft: null, dragged: null };
    const label = `${setLabel(findSet(sets, set))} moved to position ${now + 1} of ${sets.length}`;
    return announce({ ...commit(state, { sets: next }, label), selected: set }, label);
  },

  cleared: (state) => requestFocus(commitRemoval(state, [], "all regions removed", null), "new-box"),

  orderSet: (state, { ordered }) =>
    announce(
      commit(state, { ordered }, ordered ? "in this order" : "order chosen by the captioner"),
      ordered ? "The caption follows this order" : "The captioner chooses the order",
    ),

  optionSet: (state, { name, value }) => {
    const { options } = currentDocument(state);
    return commit(
      state,
      { options: { ...options, [name]: clampOption(name, value) } },
      `option ${name}`,
      `option ${name}`,
    );
  },

  /** Replace the whole control: by a selection of the captioner, an alternative or a history entry. */
  documentReplaced: (state, { sets, ordered = true, options = currentDocument(state).options, label }) =>
    announce(
      { ...commit(state, { ...emptyDocument(), sets, ordered, options }, label), selected: null, highlight: null },
      label,
    ),
};
