// Keys on a chip of the control: arrows go along the list, or carry a chip that is lifted.

import { nameOf, placeOf, setOf } from "../state/control.js";
import { documentOf } from "../state/state.js";
import { placeAfter, rove } from "../view/roving.js";

export function chipKeys(event, state, act) {
  const id = Number(event.target.closest("li")?.dataset.set);
  const { sets } = documentOf(state);
  const set = setOf(sets, id);
  if (!set || !event.target.matches(".chip-name")) return;
  const place = placeOf(sets, id);
  const isCarried = state.lifted === id || event.ctrlKey || event.metaKey;
  const target = isCarried && event.key.startsWith("Arrow") ? placeAfter(event.key, place, sets.length) : null;
  if (target !== null) {
    act.dispatch({ type: "reordered", set: id, place: target });
  } else if (state.mode === "merge" && (event.key === "Enter" || event.key === " ")) {
    act.chooseSet(id);
  } else if (event.key === " ") {
    const lifted = state.lifted === id ? null : id;
    const text = `${nameOf(set)}, place ${place + 1} of ${sets.length}`;
    act.dispatch({
      type: "lifted",
      set: lifted,
      text: lifted === null ? `Put down: ${text}` : `Lifted: ${text}. Arrow keys carry it`,
    });
  } else if (event.key === "Delete" || event.key === "Backspace") {
    act.dispatch({ type: "removedSet", set: id, focus: "chip" });
  } else if (event.key === "Enter") {
    act.dispatch({ type: "focus", name: `box:${set.boxes[0].id}` });
  } else if (event.key.toLowerCase() === "m" && !event.ctrlKey && !event.metaKey) {
    act.dispatch({ type: "selected", set: id });
    act.merge(true);
  } else {
    if (!isCarried) rove(event, ".chip-name");
    return;
  }
  event.preventDefault();
}
