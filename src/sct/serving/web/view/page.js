// The whole page, from the state.

import { captionView } from "./caption.js";
import { control } from "./control.js";
import { h } from "./elements.js";
import { historyView } from "./history.js";
import { iconButton } from "./icons.js";
import { masthead } from "./masthead.js";
import { others } from "./others.js";
import { stage } from "./stage.js";
import { start } from "./start.js";

export function page(state, act) {
  if (!state.picture) return [masthead(state, act), start(state, act)];
  return [
    masthead(state, act),
    h(
      "main",
      { class: "workbench", key: "workbench" },
      h(
        "div",
        { class: "reading", key: "reading" },
        stageTools(state, act),
        h("figure", { class: "figure" }, stage(state, act), captionView(state, act)),
      ),
      control(state, act),
      others(state, act),
      historyView(state, act),
    ),
  ];
}

const HINTS = {
  point: [
    h("span", { class: "for-mouse" }, "Click a faint region to add it, or drag to draw one."),
    h("span", { class: "for-touch" }, "Tap a faint region to add it."),
  ],
  draw: "Drag over the picture to draw a box.",
  merge: "Choose the region or box that joins the selected one. Esc leaves.",
};

function stageTools(state, act) {
  const isDrawing = state.mode === "draw";
  return h(
    "div",
    { class: "stage-tools" },
    iconButton("box", "New box", {
      focus: "new-box",
      "aria-pressed": String(isDrawing),
      title: "Draw a box; with the keyboard, put one in the middle",
      // A click that came from a key has no pointer to draw with.
      on: { click: (event) => act.newBox(event.detail === 0) },
    }),
    h("p", { class: "note" }, HINTS[state.mode]),
  );
}
