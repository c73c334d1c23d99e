// Keyboard handling of boxes on the image: arrows move, Shift+arrows resize, Delete removes.

import { moveBox, resizeBox } from "../state/boxes.js";
import { allBoxes } from "../state/control.js";
import { currentDocument } from "../state/state.js";
import { describeBox } from "../state/format.js";

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const STEP = 0.01; // fraction of the longer side

export function boxKeys(event, state, actions) {
  const boxId = Number(event.target.dataset?.box);
  const found = allBoxes(currentDocument(state).sets).find(({ id }) => id === boxId);
  if (!found) return;
  if (event.key in DIRECTIONS && !event.altKey) {
    event.preventDefault();
    reshapeByKey(event, found, state.image, actions);
  } else if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    actions.dispatch({ type: "boxRemoved", boxId, keepsFocus: true });
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    actions.chooseSet(Number(event.target.dataset.set));
  }
}

function reshapeByKey({ key, shiftKey, ctrlKey, metaKey }, { id, box }, image, actions) {
  const step = ctrlKey || metaKey ? 1 : Math.max(1, STEP * Math.max(image.width, image.height));
  const [dx, dy] = DIRECTIONS[key].map((direction) => direction * step);
  const next = shiftKey ? resizeBox(box, "se", dx, dy, image) : moveBox(box, dx, dy, image);
  actions.dispatch({ type: "boxReshaped", boxId: id, box: next, kind: `${shiftKey ? "resize" : "move"} ${id}` });
  actions.announceSoon(describeBox(next, image));
}
