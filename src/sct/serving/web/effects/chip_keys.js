// Keyboard handling of region chips: arrows move the focus, or move a lifted chip.

import { findSet, indexOfSet, setLabel } from "../state/control.js";
import { currentDocument } from "../state/state.js";
import { nextPosition, rove } from "../view/roving.js";

export function chipKeys(event, state, actions) {
  const id = Number(event.target.closest("li")?.dataset.set);
  const { sets } = currentDocument(state);
  const set = findSet(sets, id);
  if (!set || !event.target.matches(".chip-name")) return;
  const position = indexOfSet(sets, id);
  const isMoving = state.lifted === id || event.ctrlKey || event.metaKey;
  const target = isMoving && event.key.startsWith("Arrow") ? nextPosition(event.key, position, sets.length) : null;
  if (target !== null) {
    actions.dispatch({ type: "setMoved", set: id, position: target });
  } else if (state.mode === "merge" && (event.key === "Enter" || event.key === " ")) {
    actions.chooseSet(id);
  } else if (event.key === " ") {
    const lifted = state.lifted === id ? null : id;
    const text = `${setLabel(set)}, position ${position + 1} of ${sets.length}`;
    actions.dispatch({
      type: "lifted",
      set: lifted,
      text: lifted === null ? `Dropped: ${text}` : `Lifted: ${text}. Arrow keys move it`,
    });
  } else if (event.key === "Delete" || event.key === "Backspace") {
    actions.dispatch({ type: "setRemoved", set: id, focus: "chip" });
  } else if (event.key === "Enter") {
    actions.dispatch({ type: "focusRequested", name: `box:${set.boxes[0].id}` });
  } else if (event.key === "F2") {
    actions.dispatch({ type: "renamingSet", set: id });
  } else if (event.key.toLowerCase() === "m" && !event.ctrlKey && !event.metaKey) {
    actions.dispatch({ type: "setSelected", set: id });
    actions.setMerging(true);
  } else {
    if (!isMoving) rove(event, ".chip-name");
    return;
  }
  event.preventDefault();
}
