// Other captions: the next best for the same control, and other ways to say it, with other orders and fewer regions.

import { sureness, wayOf } from "../state/captions.js";
import { questionKey } from "../state/document.js";
import { documentOf, isCurrent, placeNow } from "../state/state.js";
import { percent } from "../state/wording.js";
import { h } from "./elements.js";
import { icon } from "./icons.js";
import { sentence } from "./sentence.js";

export function others(state, act) {
  const { answer } = state;
  if (!answer || answer.captions.length === 0) return null;
  const count = documentOf(state).sets.length;
  const ways = state.ways?.key === questionKey(documentOf(state)) ? state.ways : null;
  return h(
    "section",
    { class: "others", key: "others", "aria-labelledby": "others-title" },
    h("h2", { id: "others-title" }, "Other captions"),
    h(
      "ol",
      { class: "captions", role: "list", "aria-label": "The likeliest captions of this control" },
      answer.captions.map((caption, chosen) =>
        line(caption, (set) => placeNow(state, answer, set), {
          key: chosen,
          "aria-pressed": String(chosen === answer.chosen),
          on: { click: () => act.dispatch({ type: "preferred", chosen }) },
        }),
      ),
    ),
    count > 1 &&
      h(
        "button",
        {
          type: "button",
          class: "button",
          disabled: ways?.status === "waiting" || !isCurrent(state),
          on: { click: act.findWays },
        },
        icon("spark"),
        "Another way to say it",
      ),
    ways &&
      h(
        "div",
        { key: "ways", class: "ways", "aria-busy": String(ways.status === "waiting") },
        ways.status === "failed" && h("p", { class: "trouble" }, ways.trouble),
        ways.status === "ready" &&
          ways.captions.length === 0 &&
          h("p", { class: "note" }, "There is no other way to say it."),
        h(
          "ol",
          { class: "captions", role: "list", "aria-label": "Other ways to say it: other orders and fewer regions" },
          ways.captions.map((caption, number) =>
            line(
              caption,
              (set) => placeNow(state, ways, set),
              {
                key: number,
                on: { click: () => act.useWay(caption) },
              },
              wayOf(caption, ways.sets.length),
            ),
          ),
        ),
      ),
  );
}

function line(caption, placeOf, { key, ...properties }, note = null) {
  return h(
    "li",
    { key },
    h(
      "button",
      { type: "button", class: "other", ...properties },
      h("span", { class: "text" }, sentence(caption, placeOf), note && h("span", { class: "way" }, note)),
      h(
        "span",
        { class: "sureness", title: "Mean probability of a word" },
        h("span", { class: "unseen" }, "sureness "),
        percent(sureness(caption)),
      ),
    ),
  );
}
