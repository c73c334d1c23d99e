// Captions of this picture so far, side by side, each with the control it came from.

import { isPresent } from "../state/history.js";
import { documentOf } from "../state/state.js";
import { h } from "./elements.js";
import { stamp } from "./regions.js";
import { sentence } from "./sentence.js";

export function historyView(state, act) {
  if (state.history.length < 2) return null;
  const document = documentOf(state);
  return h(
    "section",
    { class: "history", key: "history", "aria-labelledby": "history-title" },
    h("h2", { id: "history-title" }, "So far"),
    h(
      "ol",
      { class: "cards", role: "list", reversed: true },
      state.history.map((entry) =>
        h(
          "li",
          { key: entry.key },
          h(
            "button",
            {
              type: "button",
              class: "card",
              "aria-current": isPresent(entry, document) ? "true" : null,
              on: { click: () => act.bringBack(entry) },
            },
            stamp(state.picture, entry.document.sets),
            h(
              "span",
              { class: "text" },
              sentence(entry.caption, (set) => set),
            ),
            h("span", { class: "made" }, madeOf(entry.document)),
          ),
        ),
      ),
    ),
  );
}

function madeOf({ ordered, options }) {
  return [
    ordered ? "in this order" : "order chosen",
    options.cover ? "every region" : "free to leave some out",
    `${options.longest} words`,
    `beam ${options.beam}`,
  ].join(" · ");
}
