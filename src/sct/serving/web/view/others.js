// Other captions: other wordings (the n-best list), and other orders and subsets of the regions (alternatives).

import { describeOrder } from "../state/captions.js";
import { requestKey } from "../state/document.js";
import { currentDocument, currentPosition, isCaptionCurrent } from "../state/state.js";
import { h } from "./elements.js";
import { icon } from "./icons.js";
import { sentence } from "./sentence.js";

export function others(state, actions) {
  const { result } = state;
  if (!result || result.captions.length === 0) return null;
  const count = currentDocument(state).sets.length;
  const alternatives = state.alternatives?.key === requestKey(currentDocument(state)) ? state.alternatives : null;
  return h(
    "section",
    { class: "others", key: "others", "aria-labelledby": "others-title" },
    h("h2", { id: "others-title" }, "Other wordings"),
    h(
      "ol",
      { class: "captions", role: "list", "aria-label": "Other wordings, the best one first" },
      result.captions.map((caption, chosen) =>
        line(caption, (set) => currentPosition(state, result, set), {
          key: chosen,
          "aria-pressed": String(chosen === result.chosen),
          on: { click: () => actions.dispatch({ type: "captionSelected", chosen }) },
        }),
      ),
    ),
    count > 1 &&
      h(
        "button",
        {
          type: "button",
          class: "button",
          disabled: alternatives?.status === "waiting" || !isCaptionCurrent(state),
          on: { click: actions.requestAlternatives },
        },
        icon("spark"),
        "Try other orders",
      ),
    alternatives &&
      h(
        "div",
        { key: "alternatives", class: "alternatives", "aria-busy": String(alternatives.status === "waiting") },
        alternatives.status === "failed" && h("p", { class: "error" }, alternatives.error),
        alternatives.status === "ready" &&
          alternatives.captions.length === 0 &&
          h("p", { class: "note" }, "No other order gives another caption."),
        h(
          "ol",
          { class: "captions", role: "list", "aria-label": "Captions in other orders, some without a region" },
          alternatives.captions.map((caption, number) =>
            line(
              caption,
              (set) => currentPosition(state, alternatives, set),
              {
                key: number,
                on: { click: () => actions.applyAlternative(caption) },
              },
              describeOrder(caption, alternatives.sets.length),
            ),
          ),
        ),
      ),
  );
}

function line(caption, positionOf, { key, ...properties }, note = null) {
  return h(
    "li",
    { key },
    h(
      "button",
      { type: "button", class: "other", ...properties },
      h("span", { class: "text" }, sentence(caption, positionOf), note && h("span", { class: "order-note" }, note)),
    ),
  );
}
