// Keys on a box of the picture: arrows move it, Shift resizes it, Delete removes it.

import { moved, resized } from "../state/boxes.js";
import { boxesOf } from "../state/control.js";
import { documentOf } from "../state/state.js";
import { whereabouts } from "../state/wording.js";

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const COARSE = 0.01; // of the longer side

export function boxKeys(event, state, act) {
  const boxId = Number(event.target.dataset?.box);
  const found = boxesOf(documentOf(state).sets).find(({ id }) => id === boxId);
  if (!found) return;
  if (event.key in DIRECTIONS && !event.altKey) {
    event.preventDefault();
    shaped(event, found, state.picture, act);
  } else if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    act.dispatch({ type: "removedBox", boxId, keepsFocus: true });
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    act.chooseSet(Number(event.target.dataset.set));
  }
}

function shaped({ key, shiftKey, ctrlKey, metaKey }, { id, box }, picture, act) {
  const step = ctrlKey || metaKey ? 1 : Math.max(1, COARSE * Math.max(picture.width, picture.height));
  const [across, down] = DIRECTIONS[key].map((direction) => direction * step);
  const next = shiftKey ? resized(box, "se", across, down, picture) : moved(box, across, down, picture);
  act.dispatch({ type: "reshaped", boxId: id, box: next, kind: `${shiftKey ? "resize" : "move"} ${id}` });
  act.tellSoon(whereabouts(next, picture));
}
