// The page: start screen, or workbench with image, caption and control.

import { isSteppingAt } from "../state/state.js";
import { captionView } from "./caption.js";
import { control } from "./control.js";
import { h } from "./elements.js";
import { historyView } from "./history.js";
import { iconButton } from "./icons.js";
import { imageStrip } from "./images.js";
import { masthead } from "./masthead.js";
import { others } from "./others.js";
import { stage } from "./stage.js";
import { start } from "./start.js";

export function page(state, actions) {
  if (!state.image) return [masthead(state, actions), start(state, actions)];
  return [
    masthead(state, actions),
    imageStrip(state, actions),
    h(
      "main",
      { class: "workbench", key: "workbench" },
      h(
        "div",
        { class: "reading", key: "reading" },
        stageTools(state, actions),
        h("figure", { class: "figure" }, stage(state, actions), captionView(state, actions)),
      ),
      h("div", { class: "side", key: "side" }, control(state, actions)),
      others(state, actions),
      historyView(state, actions),
    ),
  ];
}

const HINTS = {
  point: [
    h("span", { class: "for-mouse" }, "Click anything to mention it, or drag a box around it."),
    h("span", { class: "for-touch" }, "Tap anything to mention it."),
  ],
  draw: "Drag on the image to draw a box.",
  merge: "Choose the region to merge with the selected one. Esc cancels.",
};

function hint(state) {
  if (state.clicked && isSteppingAt(state, state.clicked.point, 0) && state.clicked.choices.length > 1) {
    const { index, choices } = state.clicked;
    return `Not what you meant? Click again: ${index + 1} of ${choices.length}.`;
  }
  return HINTS[state.mode];
}

function stageTools(state, actions) {
  const isDrawing = state.mode === "draw";
  return h(
    "div",
    { class: "stage-tools" },
    iconButton("box", "New box", {
      focus: "new-box",
      "aria-pressed": String(isDrawing),
      title: "Draw a box; with the keyboard, add one in the center",
      // detail is 0 for clicks from the keyboard
      on: { click: (event) => actions.newBox(event.detail === 0) },
    }),
    h("p", { class: "note hint" }, hint(state)),
  );
}
