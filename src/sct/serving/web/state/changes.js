// What a person does to the document. Each is a step that can be undone, with a label that says what it was.

import { middle } from "./boxes.js";
import {
  added,
  boxesOf,
  joined,
  merged,
  nameOf,
  placeOf,
  reordered,
  reshaped,
  setOf,
  setWithBox,
  split,
  withoutBox,
  withoutSet,
} from "./control.js";
import { emptyDocument, optionValue } from "./document.js";
import { documentOf, limitsOf } from "./state.js";
import { focused, told } from "./telling.js";
import { done } from "./timeline.js";

function changed(state, change, label, kind = null) {
  const document = { ...documentOf(state), ...change };
  return {
    ...state,
    timeline: done(state.timeline, document, label, kind),
    draft: null,
    dragged: null,
    band: null,
    mode: "point",
  };
}

/** Why no more can be pointed at; null while more can. */
function full(state, joins) {
  const { sets } = documentOf(state);
  const { region_sets: mostSets, boxes: mostBoxes } = limitsOf(state);
  if (!joins && sets.length >= mostSets) return `A control has at most ${mostSets} regions: remove or merge one first`;
  return boxesOf(sets).length >= mostBoxes ? `A control has at most ${mostBoxes} boxes: remove one first` : null;
}

/** A box becomes a region of its own, or joins the selected one where boxes are being merged. */
function taken(state, box, name) {
  const { sets } = documentOf(state);
  const joins = state.mode === "merge" && setOf(sets, state.selected) !== null;
  const trouble = full(state, joins);
  if (trouble) return told({ ...state, mode: "point", band: null }, trouble, true);
  const next = joins ? joined(sets, state.selected, box, name) : added(sets, box, name);
  const set = joins ? setOf(next, state.selected) : next.at(-1);
  const label = `${name ?? "box"} added as ${joins ? "part of " : ""}region ${placeOf(next, set.id) + 1}`;
  return told({ ...changed(state, { sets: next }, label), selected: set.id }, label);
}

/** The neighbour that takes the focus of what was removed. */
function neighbour(before, after, id) {
  const place = placeOf(before, id);
  return after[Math.min(place, after.length - 1)]?.id ?? null;
}

function removed(state, sets, label, focus) {
  const { sets: before } = documentOf(state);
  const selected = setOf(sets, state.selected) ? state.selected : neighbour(before, sets, state.selected);
  const next = told({ ...changed(state, { sets }, label), selected, lit: null, lifted: null }, label);
  return focus ? focused(next, focus) : next;
}

export const changes = {
  added: (state, { box, name = null }) => taken(state, box, name),

  /** The key for "new box": one in the middle, with the focus on it, to be moved from there. */
  addedInMiddle: (state) => {
    const next = taken(state, middle(state.picture), null);
    const set = setOf(documentOf(next).sets, next.selected);
    return next.timeline === state.timeline ? next : focused(next, `box:${set.boxes.at(-1).id}`);
  },

  reshaped: (state, { boxId, box, kind = null }) => {
    const { sets } = documentOf(state);
    const set = setWithBox(sets, boxId);
    const label = `region ${placeOf(sets, set.id) + 1} ${kind?.startsWith("resize") ? "resized" : "moved"}`;
    return changed(state, { sets: reshaped(sets, boxId, box) }, label, kind);
  },

  removedBox: (state, { boxId, keepsFocus = false }) => {
    const { sets } = documentOf(state);
    const set = setWithBox(sets, boxId);
    if (set.boxes.length === 1) return changes.removedSet(state, { set: set.id, focus: keepsFocus ? "box" : null });
    const left = withoutBox(sets, boxId);
    const label = `box removed from region ${placeOf(sets, set.id) + 1}`;
    return removed(state, left, label, keepsFocus ? `box:${setOf(left, set.id).boxes[0].id}` : null);
  },

  removedSet: (state, { set: id, focus = null }) => {
    const { sets } = documentOf(state);
    const left = withoutSet(sets, id);
    const next = setOf(left, neighbour(sets, left, id));
    const label = `region ${placeOf(sets, id) + 1} (${nameOf(setOf(sets, id))}) removed`;
    const names = { box: next && `box:${next.boxes[0].id}`, chip: next && `chip:${next.id}` };
    return removed({ ...state, selected: id }, left, label, focus && (names[focus] ?? "new-box"));
  },

  merged: (state, { into, from }) => {
    const { sets } = documentOf(state);
    const label = `region ${placeOf(sets, from) + 1} merged into region ${placeOf(sets, into) + 1}`;
    return told({ ...changed(state, { sets: merged(sets, into, from) }, label), selected: into }, label);
  },

  split: (state, { set }) => {
    const { sets } = documentOf(state);
    const label = `region ${placeOf(sets, set) + 1} split into ${setOf(sets, set).boxes.length}`;
    return told(changed(state, { sets: split(sets, set) }, label), label);
  },

  reordered: (state, { set, place }) => {
    const { sets } = documentOf(state);
    const next = reordered(sets, set, place);
    const now = placeOf(next, set);
    if (now === placeOf(sets, set)) return { ...state, draft: null, dragged: null };
    const label = `${nameOf(setOf(sets, set))} moved to place ${now + 1} of ${sets.length}`;
    return told({ ...changed(state, { sets: next }, label), selected: set }, label);
  },

  cleared: (state) => focused(removed(state, [], "all regions removed", null), "new-box"),

  orderGiven: (state, { ordered }) =>
    told(
      changed(state, { ordered }, ordered ? "in this order" : "order left to the captioner"),
      ordered ? "The caption follows this order" : "The captioner chooses the order",
    ),

  optionSet: (state, { name, value }) => {
    const { options } = documentOf(state);
    return changed(
      state,
      { options: { ...options, [name]: optionValue(name, value) } },
      `option ${name}`,
      `option ${name}`,
    );
  },

  /** A whole control at once: one that the captioner chose, another way to say it, one of the history. */
  replaced: (state, { sets, ordered = true, options = documentOf(state).options, label }) =>
    told(
      { ...changed(state, { ...emptyDocument(), sets, ordered, options }, label), selected: null, lit: null },
      label,
    ),
};
