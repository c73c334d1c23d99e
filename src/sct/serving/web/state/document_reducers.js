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
  nextId,
  removeBox,
  removeSet,
  renameSet,
  setBox,
  setLabel,
  splitSet,
} from "./control.js";
import { clampOption, emptyDocument, parseWords, replaceWord } from "./document.js";
import { pointBox, rankAt } from "./proposals.js";
import { currentDocument, isSteppingAt, serverLimits, targetAt, unusedProposals } from "./state.js";
import { announce, requestFocus } from "./announcements.js";
import { pushStep } from "./timeline.js";

function commit(state, change, label, kind = null) {
  const document = { ...currentDocument(state), suggested: false, ...change };
  return {
    ...state,
    timeline: pushStep(state.timeline, document, label, kind),
    draft: null,
    dragged: null,
    band: null,
    mode: "point",
    renaming: null,
    pinnedWord: null,
  };
}

/** Error message if the control, or the set to merge into, is full; else null. */
function limitError(state, into) {
  const { sets } = currentDocument(state);
  const { region_sets: maxSets, boxes: maxBoxes } = serverLimits(state);
  if (into) return into.boxes.length < maxBoxes ? null : `A region has at most ${maxBoxes} boxes: remove one first`;
  return sets.length < maxSets ? null : `There can be at most ${maxSets} regions: remove or merge one first`;
}

/** Add a box as a new region, or to the selected region in merge mode. */
function addRegion(state, box, name, kind = null) {
  const { sets } = currentDocument(state);
  const into = state.mode === "merge" ? findSet(sets, state.selected) : null;
  const isMerging = into !== null;
  const error = limitError(state, into);
  if (error) return announce({ ...state, mode: "point", band: null }, error, true);
  const next = isMerging ? addBox(sets, state.selected, box, name) : addSet(sets, box, name);
  const set = isMerging ? findSet(next, state.selected) : next.at(-1);
  const label = `${name ?? "box"} added as ${isMerging ? "part of " : ""}region ${indexOfSet(next, set.id) + 1}`;
  return announce({ ...commit(state, { sets: next }, label, kind), selected: set.id }, label);
}

/** Add the region most likely meant by a click; further clicks at the same place step through `choices`. */
function addClicked(state, point) {
  const proposals = rankAt(unusedProposals(state), point, state.image);
  const around = { box: pointBox(point, state.image), name: null };
  const choices = [...proposals, around].map(({ box, name }) => ({ box, name }));
  if (state.mode === "merge") return addRegion(state, choices[0].box, choices[0].name);
  const boxId = nextId(currentDocument(state).sets) + 1; // as addSet numbers it
  const next = addRegion(state, choices[0].box, choices[0].name, `click ${boxId}`);
  if (next.timeline === state.timeline) return next;
  return { ...next, highlight: null, clicked: { point, boxId, choices, index: 0, number: next.timeline.present.number } };
}

/** Replace the region of the last click by the next one at that place. */
function stepClicked(state) {
  const { boxId, choices } = state.clicked;
  const index = (state.clicked.index + 1) % choices.length;
  const { box, name } = choices[index];
  const { sets } = currentDocument(state);
  const region = `region ${indexOfSet(sets, findSetOfBox(sets, boxId).id) + 1}`;
  const label = `${name ?? "a box around this point"} as ${region}`;
  const next = commit(state, { sets: setBox(sets, boxId, box, name) }, label, `click ${boxId}`);
  const clicked = { ...state.clicked, index, number: next.timeline.present.number };
  return announce({ ...next, clicked }, `${label}, ${index + 1} of ${choices.length} here`);
}

const commitWords = (state, change, label) => announce(commit(state, change, label), label);

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

  /** Click on the image; `tolerance` is the distance in image pixels that counts as the same place. */
  imageClicked: (state, { point, tolerance }) => {
    if (isSteppingAt(state, point, tolerance) && state.clicked.choices.length > 1) return stepClicked(state);
    const target = targetAt(state, point);
    if (!target || target.set === null) return addClicked(state, point);
    if (state.mode === "merge" && target.set !== state.selected)
      return documentReducers.setsMerged(state, { into: state.selected, from: target.set });
    return { ...state, selected: target.set, clicked: null, pinnedWord: null };
  },

  /** End of the editing of a name; not after it was cancelled. */
  setRenamed: (state, { set, name }) => {
    if (state.renaming !== set) return state;
    const { sets } = currentDocument(state);
    const given = name.trim().replace(/\s+/g, " ") || null;
    const next = renameSet(sets, set, given);
    const closed = requestFocus({ ...state, renaming: null }, `chip:${set}`);
    if (JSON.stringify(next) === JSON.stringify(sets)) return closed;
    const region = `region ${indexOfSet(sets, set) + 1}`;
    const label = given ? `${region} is to be called ${given}` : `${region} has its own name again`;
    return announce(commit(closed, { sets: next }, label), label);
  },

  /** Add words to `banned` or `required`, and take them out of the other list. */
  wordsAdded: (state, { list, text }) => {
    const words = parseWords(text);
    if (words.length === 0) return announce(state, "Type a word first", true);
    const document = currentDocument(state);
    const other = list === "banned" ? "required" : "banned";
    const change = {
      [list]: parseWords([...document[list], ...words].join(" ")),
      [other]: document[other].filter((word) => !words.includes(word)),
    };
    return commitWords(state, change, `${list === "banned" ? "don’t say" : "always say"} ${words.join(", ")}`);
  },
  wordRemoved: (state, { list, word }) => {
    const words = currentDocument(state)[list].filter((each) => each !== word);
    const focus = words.length ? `${list}:${words[0]}` : `add-${list}`;
    return requestFocus(commitWords(state, { [list]: words }, `${word} is free again`), focus);
  },

  /** Use a word of the server in place of one that it does not know. */
  wordReplaced: (state, { word, by }) =>
    commitWords(state, replaceWord(currentDocument(state), word, by), `“${by}” instead of “${word}”`),

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
      commit(state, { ordered }, ordered ? "in this order" : "automatic order"),
      ordered ? "The caption follows this order" : "The order is chosen automatically",
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

  /** Replace the whole control: by a suggestion, an alternative, a history entry or a file. */
  documentReplaced: (state, { document, label }) =>
    announce(
      { ...commit(state, { ...emptyDocument(), ...document }, label), selected: null, highlight: null },
      label,
    ),
};
