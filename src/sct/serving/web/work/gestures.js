// What a mouse, a pen or a finger does on the picture and on the chips.
//
// A finger on the picture scrolls the page, unless a box is to be drawn or a selected one is taken hold of.

import { between, moved, resized } from "../state/boxes.js";
import { boxesOf, reordered, reshaped } from "../state/control.js";
import { documentOf } from "../state/state.js";

const FAR = 4; // pixels of the screen from which on a pointer drags

/** Follow one pointer until it is let go; `end(event, hasMoved)` hears null for a pointer that was taken away. */
function follow(start, { move, end }) {
  let hasMoved = false;
  const isMine = (event) => event.pointerId === start.pointerId;
  const onMove = (event) => {
    if (!isMine(event)) return;
    hasMoved ||= Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) > FAR;
    if (hasMoved) move(event);
  };
  const finish = (event) => {
    if (event.type === "keydown" ? event.key !== "Escape" : !isMine(event)) return;
    stop.abort();
    end(event.type === "pointerup" ? event : null, hasMoved);
  };
  const stop = new AbortController();
  for (const [kind, listener] of [
    ["pointermove", onMove],
    ["pointerup", finish],
    ["pointercancel", finish],
    ["keydown", finish],
  ]) {
    window.addEventListener(kind, listener, { signal: stop.signal });
  }
}

export function createGestures(getState, act) {
  const cancel = () => act.dispatch({ type: "cancelled" });

  function onStage(event) {
    if (event.button !== 0 || !event.isPrimary) return;
    const state = getState();
    const stage = event.currentTarget;
    const frame = stage.getBoundingClientRect();
    const across = state.picture.width / frame.width;
    const down = state.picture.height / frame.height;
    const at = ({ clientX, clientY }) => [(clientX - frame.left) * across, (clientY - frame.top) * down];
    const found = event.target.closest("[data-handle], [data-box], [data-proposal]");
    const box = event.target.closest("[data-box]");
    const isTouch = event.pointerType === "touch";
    if (state.mode !== "draw" && box) {
      const isSelected = Number(box.dataset.set) === state.selected;
      if (!isTouch) event.preventDefault(); // no selection of text, no drag of the image
      stage.querySelector(`[data-focus="box:${box.dataset.box}"]`).focus({ preventScroll: true });
      if (isTouch && !isSelected)
        return follow(event, { move() {}, end: (up, far) => up && !far && act.chooseSet(Number(box.dataset.set)) });
      return takeHold(event, {
        at,
        boxId: Number(box.dataset.box),
        set: Number(box.dataset.set),
        handle: found.dataset.handle,
      });
    }
    if (isTouch && state.mode !== "draw") {
      return follow(event, { move() {}, end: (up, far) => up && !far && tapped(found) });
    }
    event.preventDefault();
    draw(event, at, found);
  }

  function tapped(found) {
    if (found?.dataset.proposal !== undefined) act.addProposal(Number(found.dataset.proposal));
    else if (getState().mode === "point") act.dispatch({ type: "selected", set: null });
  }

  function draw(start, at, found) {
    const { picture } = getState();
    follow(start, {
      move: (event) => act.dispatch({ type: "banded", band: between(at(start), at(event), picture) }),
      end: (event, far) => {
        const box = event && far ? between(at(start), at(event), picture) : null;
        if (box) act.dispatch({ type: "added", box });
        else if (event && !far) tapped(found);
        else cancel();
      },
    });
  }

  /** Move a box, or its sides where a handle was taken; the caption follows while it is on its way. */
  function takeHold(start, { at, boxId, set, handle }) {
    const { sets } = documentOf(getState());
    const { picture } = getState();
    const { box } = boxesOf(sets).find(({ id }) => id === boxId);
    const shape = (event) => {
      const [x, y] = at(event);
      const [x0, y0] = at(start);
      return handle ? resized(box, handle, x - x0, y - y0, picture) : moved(box, x - x0, y - y0, picture);
    };
    follow(start, {
      move: (event) => act.dispatch({ type: "drafted", sets: reshaped(sets, boxId, shape(event)) }),
      end: (event, far) => {
        if (!event) return cancel();
        if (!far) return act.chooseSet(set);
        act.dispatch({ type: "reshaped", boxId, box: shape(event) });
      },
    });
  }

  /** A chip goes to the place over whose middle the pointer is; a finger takes it by its grip, a mouse anywhere. */
  function onChip(event, id) {
    if (event.button !== 0 || !event.isPrimary || event.target.closest(".tool")) return;
    if (event.pointerType === "touch" && !event.target.closest(".grip")) return;
    const list = event.currentTarget.parentElement;
    const { sets } = documentOf(getState());
    const placeAt = ({ clientY }) =>
      [...list.children].filter((item) => Number(item.dataset.set) !== id).filter((item) => middleOf(item) < clientY)
        .length;
    let place = null;
    follow(event, {
      move: (moving) => {
        place = placeAt(moving);
        act.dispatch({ type: "drafted", sets: reordered(sets, id, place), dragged: id });
      },
      end: (up, far) => {
        if (!up) return cancel();
        if (far && place !== null) act.dispatch({ type: "reordered", set: id, place });
      },
    });
  }

  return { stage: onStage, chip: onChip };
}

function middleOf(item) {
  const { top, height } = item.getBoundingClientRect();
  return top + height / 2;
}
