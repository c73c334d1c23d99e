// The page: start screen, or workbench with image, caption and control.

import { captionView } from "./caption.js";
import { control } from "./control.js";
import { h } from "./elements.js";
import { historyView } from "./history.js";
import { iconButton } from "./icons.js";
import { masthead } from "./masthead.js";
import { others } from "./others.js";
import { stage } from "./stage.js";
import { start } from "./start.js";

export function page(state, actions) {
  if (!state.image) return [masthead(state, actions), start(state, actions)];
  return [
    masthead(state, actions),
    h(
      "main",
      { class: "workbench", key: "workbench" },
      h(
        "div",
        { class: "reading", key: "reading" },
        stageTools(state, actions),
        h("figure", { class: "figure" }, stage(state, actions), captionView(state, actions)),
      ),
      control(state, actions),
      others(state, actions),
      historyView(state, actions),
    ),
  ];
}

const HINTS = {
  point: [
    h("span", { class: "for-mouse" }, "Click a faint region to add it, or drag to draw one."),
    h("span", { class: "for-touch" }, "Tap a faint region to add it."),
  ],
  draw: "Drag on the image to draw a box.",
  merge: "Choose the region or box to merge with the selected one. Esc cancels.",
};

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
    h("p", { class: "note" }, HINTS[state.mode]),
  );
}
