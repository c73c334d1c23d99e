// Pointer gestures on the image and on the chips.
//
// Touch on the image scrolls the page, except while drawing a box or dragging a selected one.

import { boxFromCorners, moveBox, resizeBox } from "../state/boxes.js";
import { allBoxes, moveSet, setBox } from "../state/control.js";
import { currentDocument, isSteppingAt, targetAt } from "../state/state.js";

const DRAG_THRESHOLD = 4; // screen pixels
const SAME_PLACE = { mouse: 6, touch: 24 }; // screen pixels between clicks that count as the same place

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

  /** Function from screen to image coordinates. */
  function imageCoordinates(stage) {
    const { image } = getState();
    const frame = stage.getBoundingClientRect();
    const scaleX = image.width / frame.width;
    const scaleY = image.height / frame.height;
    return ({ clientX, clientY }) => [(clientX - frame.left) * scaleX, (clientY - frame.top) * scaleY];
  }

  /** Distance in image pixels within which two clicks count as at the same place. */
  const tolerance = (event, toImage) =>
    toImage({ clientX: SAME_PLACE[event.pointerType] ?? SAME_PLACE.mouse, clientY: 0 })[0] -
    toImage({ clientX: 0, clientY: 0 })[0];

  const click = (event, toImage) =>
    actions.dispatch({ type: "imageClicked", point: toImage(event), tolerance: tolerance(event, toImage) });

  /** Highlight what a click would take. */
  function onHover(event) {
    const state = getState();
    if (event.pointerType !== "mouse" || event.buttons !== 0 || state.mode === "draw") return;
    const toImage = imageCoordinates(event.currentTarget);
    const point = toImage(event);
    const target = isSteppingAt(state, point, tolerance(event, toImage)) ? null : targetAt(state, point);
    if (!target) actions.highlight(null);
    else actions.highlight(target.set === null ? { proposal: target.proposal } : { set: target.set, onImage: true });
  }

  function onStage(event) {
    if (event.button !== 0 || !event.isPrimary) return;
    const state = getState();
    const stage = event.currentTarget;
    const toImage = imageCoordinates(stage);
    const box = event.target.closest("[data-box]");
    const isTouch = event.pointerType === "touch";
    if (state.mode !== "draw" && box) {
      const isSelected = Number(box.dataset.set) === state.selected;
      if (!isTouch) event.preventDefault(); // no text selection, no native image drag
      stage.querySelector(`[data-focus="box:${box.dataset.box}"]`).focus({ preventScroll: true });
      if (isTouch && !isSelected)
        return trackPointer(event, {
          move() {},
          end: (up, hasMoved) => up && !hasMoved && click(up, toImage),
        });
      return dragBox(event, {
        toImage,
        boxId: Number(box.dataset.box),
        handle: event.target.dataset.handle,
      });
    }
    if (isTouch && state.mode !== "draw") {
      return trackPointer(event, { move() {}, end: (up, hasMoved) => up && !hasMoved && click(up, toImage) });
    }
    event.preventDefault();
    draw(event, toImage);
  }

  function draw(start, toImage) {
    const { image } = getState();
    const boxTo = (event) => boxFromCorners(toImage(start), toImage(event), image);
    trackPointer(start, {
      move: (event) => actions.dispatch({ type: "bandDrawn", band: boxTo(event) }),
      end: (event, hasMoved) => {
        const box = event && hasMoved ? boxTo(event) : null;
        if (box) actions.dispatch({ type: "boxAdded", box });
        else if (event && !hasMoved) click(event, toImage);
        else cancel();
      },
    });
  }

  /** Move or (by a handle) resize a box; the draft is captioned while dragging. */
  function dragBox(start, { toImage, boxId, handle }) {
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
        if (!hasMoved) return click(event, toImage); // handles cover a small box
        actions.dispatch({ type: "boxReshaped", boxId, box: shape(event) });
      },
    });
  }

  /** Drag a chip to another position; touch drags start on the grip only. */
  function onChip(event, id) {
    if (event.button !== 0 || !event.isPrimary || event.target.closest(".tool, input")) return;
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

  return { stage: onStage, hover: onHover, chip: onChip };
}

function centerY(item) {
  const { top, height } = item.getBoundingClientRect();
  return top + height / 2;
}
