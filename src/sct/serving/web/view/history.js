// Cards of earlier captions of this image.

import { isCurrentEntry } from "../state/history.js";
import { currentDocument } from "../state/state.js";
import { h } from "./elements.js";
import { thumbnail } from "./regions.js";
import { sentence } from "./sentence.js";

export function historyView(state, actions) {
  if (state.history.length < 2) return null;
  const document = currentDocument(state);
  return h(
    "section",
    { class: "history", key: "history", "aria-labelledby": "history-title" },
    h("h2", { id: "history-title" }, "Earlier captions of this image"),
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
              "aria-current": isCurrentEntry(entry, document) ? "true" : null,
              on: { click: () => actions.restore(entry) },
            },
            thumbnail(state.image, entry.document.sets),
            h(
              "span",
              { class: "text" },
              sentence(entry.caption, (set) => set),
            ),
            h("span", { class: "settings" }, describeDocument(entry.document)),
          ),
        ),
      ),
    ),
  );
}

function describeDocument({ ordered, options, banned, required }) {
  const settings = [
    ordered ? "in this order" : "automatic order",
    !options.cover && "regions may be left out",
    banned.length > 0 && `without ${banned.join(", ")}`,
    required.length > 0 && `with ${required.join(", ")}`,
  ];
  return settings.filter(Boolean).join(" · ");
}
