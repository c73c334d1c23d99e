// Page header: title, undo, redo, theme.

import { h } from "./elements.js";
import { iconButton } from "./icons.js";

const THEMES = {
  auto: ["auto", "System colours", "light"],
  light: ["sun", "Light", "dark"],
  dark: ["moon", "Dark", "auto"],
};

export function masthead(state, actions) {
  const [iconName, label, next] = THEMES[state.theme];
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
      state.image && [
        iconButton(
          "undo",
          "Undo",
          {
            "aria-disabled": past.length === 0 ? "true" : null,
            "aria-keyshortcuts": "Control+Z",
            title: past.length ? `Undo: ${state.timeline.present.label}` : "Nothing to undo",
            on: { click: () => actions.dispatch({ type: "undone" }) },
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
            on: { click: () => actions.dispatch({ type: "redone" }) },
          },
          { compact: true },
        ),
        iconButton("image", "All images", { on: { click: () => actions.show(null) } }, { compact: true }),
      ],
      iconButton("keys", "Keys", { on: { click: actions.showKeys }, "aria-haspopup": "dialog" }, { compact: true }),
      iconButton(iconName, `Theme: ${label}`, { on: { click: () => actions.theme(next) } }, { compact: true }),
    ),
  );
}
