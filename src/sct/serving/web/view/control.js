// Control panel: order, regions, words, proposals, options.

import { currentDocument } from "../state/state.js";
import { chips } from "./chips.js";
import { h } from "./elements.js";
import { options } from "./options.js";
import { proposals } from "./proposals.js";
import { words } from "./words.js";

export function control(state, actions) {
  return h(
    "section",
    { class: "control", key: "control", "aria-labelledby": "control-title" },
    h("h2", { id: "control-title" }, "What the caption mentions"),
    currentDocument(state).sets.length > 1 && order(state, actions),
    chips(state, actions),
    words(state, actions),
    proposals(state, actions),
    options(state, actions),
  );
}

function order(state, actions) {
  const { ordered } = currentDocument(state);
  const canSort = state.server?.model?.has_sorter !== false;
  const choice = (value, text, can = true) =>
    h(
      "label",
      { class: "choice", title: can ? null : "This model cannot choose an order" },
      h("input", {
        type: "radio",
        name: "order",
        class: "visually-hidden",
        value,
        checked: ordered === (value === "given"),
        disabled: !can,
        on: { change: () => actions.dispatch({ type: "orderSet", ordered: value === "given" }) },
      }),
      h("span", {}, text),
    );
  return h(
    "fieldset",
    { class: "segments" },
    h("legend", { class: "visually-hidden" }, "Order of regions"),
    choice("given", "In this order"),
    choice("chosen", "Automatic order", canSort),
  );
}
