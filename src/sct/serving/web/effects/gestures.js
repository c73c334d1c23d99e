// Pointer gestures on the image and on the chips.
//
// Touch on the image scrolls the page, except while drawing a box or dragging a selected one.

import { boxFromCorners, moveBox, resizeBox } from "../state/boxes.js";
import { allBoxes, moveSet, setBox } from "../state/control.js";
import { currentDocument } from "../state/state.js";

const DRAG_THRESHOLD = 4; // screen pixels

/** Track one pointer until release; `end(event, hasMoved)` gets null when the gesture was cancelled. */
function trackPointer(start, { move, end }) {
  let hasMoved = false;
  const isSamePointer = (event) => event.pointerId === start.pointerId;
  const onMove = (event) => {
    if (!isSamePointer(event)) return;
    hasMoved ||= Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) > DRAG_THRESHOLD;
    if (hasMoved) move(event);
  };
  const finish = (event) => {
    if (event.type === "keydown" ? event.key !== "Escape" : !isSamePointer(event)) return;
    stop.abort();
    end(event.type === "pointerup" ? event : null, hasMoved);
  };
  const stop = new AbortController();
  for (const [type, listener] of [
    ["pointermove", onMove],
    ["pointerup", finish],
    ["pointercancel", finish],
    ["keydown", finish],
  ]) {
    window.addEventListener(type, listener, { signal: stop.signal });
  }
}

export function createGestures(getState, actions) {
  const cancel = () => actions.dispatch({ type: "cancelled" });

  function onStage(event) {
    if (event.button !== 0 || !event.isPrimary) return;
    const state = getState();
    const stage = event.currentTarget;
    const frame = stage.getBoundingClientRect();
    const scaleX = state.image.width / frame.width;
    const scaleY = state.image.height / frame.height;
    const toImage = ({ clientX, clientY }) => [(clientX - frame.left) * scaleX, (clientY - frame.top) * scaleY];
    const found = event.target.closest("[data-handle], [data-box], [data-proposal]");
    const box = event.target.closest("[data-box]");
    const isTouch = event.pointerType === "touch";
    if (state.mode !== "draw" && box) {
      const isSelected = Number(box.dataset.set) === state.selected;
      if (!isTouch) event.preventDefault(); // no text selection, no native image drag
      stage.querySelector(`[data-focus="box:${box.dataset.box}"]`).focus({ preventScroll: true });
      if (isTouch && !isSelected)
        return trackPointer(event, {
          move() {},
          end: (up, hasMoved) => up && !hasMoved && actions.chooseSet(Number(box.dataset.set)),
        });
      return dragBox(event, {
        toImage,
        boxId: Number(box.dataset.box),
        set: Number(box.dataset.set),
        handle: found.dataset.handle,
      });
    }
    if (isTouch && state.mode !== "draw") {
      return trackPointer(event, { move() {}, end: (up, hasMoved) => up && !hasMoved && onTap(found) });
    }
    event.preventDefault();
    draw(event, toImage, found);
  }

  function onTap(found) {
    if (found?.dataset.proposal !== undefined) actions.addProposal(Number(found.dataset.proposal));
    else if (getState().mode === "point") actions.dispatch({ type: "setSelected", set: null });
  }

  function draw(start, toImage, found) {
    const { image } = getState();
    const boxTo = (event) => boxFromCorners(toImage(start), toImage(event), image);
    trackPointer(start, {
      move: (event) => actions.dispatch({ type: "bandDrawn", band: boxTo(event) }),
      end: (event, hasMoved) => {
        const box = event && hasMoved ? boxTo(event) : null;
        if (box) actions.dispatch({ type: "boxAdded", box });
        else if (event && !hasMoved) onTap(found);
        else cancel();
      },
    });
  }

  /** Move or (by a handle) resize a box; the draft is captioned while dragging. */
  function dragBox(start, { toImage, boxId, set, handle }) {
    const { sets } = currentDocument(getState());
    const { image } = getState();
    const { box } = allBoxes(sets).find(({ id }) => id === boxId);
    const shape = (event) => {
      const [x, y] = toImage(event);
      const [x0, y0] = toImage(start);
      return handle ? resizeBox(box, handle, x - x0, y - y0, image) : moveBox(box, x - x0, y - y0, image);
    };
    trackPointer(start, {
      move: (event) => actions.dispatch({ type: "draftChanged", sets: setBox(sets, boxId, shape(event)) }),
      end: (event, hasMoved) => {
        if (!event) return cancel();
        if (!hasMoved) return actions.chooseSet(set);
        actions.dispatch({ type: "boxReshaped", boxId, box: shape(event) });
      },
    });
  }

  /** Drag a chip to another position; touch drags start on the grip only. */
  function onChip(event, id) {
    if (event.button !== 0 || !event.isPrimary || event.target.closest(".tool")) return;
    if (event.pointerType === "touch" && !event.target.closest(".grip")) return;
    const list = event.currentTarget.parentElement;
    const { sets } = currentDocument(getState());
    const positionAt = ({ clientY }) =>
      [...list.children].filter((item) => Number(item.dataset.set) !== id).filter((item) => centerY(item) < clientY)
        .length;
    let position = null;
    trackPointer(event, {
      move: (moving) => {
        position = positionAt(moving);
        actions.dispatch({ type: "draftChanged", sets: moveSet(sets, id, position), dragged: id });
      },
      end: (up, hasMoved) => {
        if (!up) return cancel();
        if (hasMoved && position !== null) actions.dispatch({ type: "setMoved", set: id, position });
      },
    });
  }

  return { stage: onStage, chip: onChip };
}

function centerY(item) {
  const { top, height } = item.getBoundingClientRect();
  return top + height / 2;
}
