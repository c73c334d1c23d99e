// The head of the page: its name, and what is always at hand.

import { h } from "./elements.js";
import { iconButton } from "./icons.js";

const THEMES = {
  auto: ["auto", "Colours of the system", "light"],
  light: ["sun", "Light", "dark"],
  dark: ["moon", "Dark", "auto"],
};

export function masthead(state, act) {
  const [drawing, name, next] = THEMES[state.theme];
  const { past, future } = state.timeline;
  return h(
    "header",
    { class: "masthead", key: "masthead" },
    h(
      "h1",
      {},
      h("span", { class: "red" }, "Show"),
      ", ",
      h("span", { class: "blue" }, "Control"),
      " and ",
      h("span", { class: "green" }, "Tell"),
    ),
    h(
      "div",
      { class: "tools" },
      state.picture && [
        iconButton(
          "undo",
          "Undo",
          {
            "aria-disabled": past.length === 0 ? "true" : null,
            "aria-keyshortcuts": "Control+Z",
            title: past.length ? `Undo: ${state.timeline.present.label}` : "Nothing to undo",
            on: { click: () => act.dispatch({ type: "undone" }) },
          },
          { compact: true },
        ),
        iconButton(
          "redo",
          "Redo",
          {
            "aria-disabled": future.length === 0 ? "true" : null,
            "aria-keyshortcuts": "Control+Shift+Z",
            title: future.length ? `Redo: ${future[0].label}` : "Nothing to redo",
            on: { click: () => act.dispatch({ type: "redone" }) },
          },
          { compact: true },
        ),
        iconButton("picture", "Another picture", { on: { click: act.close } }, { compact: true }),
      ],
      iconButton("keys", "Keys", { on: { click: act.showKeys }, "aria-haspopup": "dialog" }, { compact: true }),
      iconButton(drawing, `Theme: ${name}`, { on: { click: () => act.theme(next) } }, { compact: true }),
    ),
  );
}
