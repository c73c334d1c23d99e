// The control: which regions, in which order; what else is asked of a caption.

import { documentOf } from "../state/state.js";
import { chips } from "./chips.js";
import { h } from "./elements.js";
import { options } from "./options.js";
import { proposals } from "./proposals.js";

export function control(state, act) {
  return h(
    "section",
    { class: "control", key: "control", "aria-labelledby": "control-title" },
    h("h2", { id: "control-title" }, "Control"),
    order(state, act),
    chips(state, act),
    proposals(state, act),
    options(state, act),
  );
}

function order(state, act) {
  const { ordered } = documentOf(state);
  const canSort = state.server?.model?.can_sort !== false;
  const choice = (value, text, can = true) =>
    h(
      "label",
      { class: "choice", title: can ? null : "This model has no sorter" },
      h("input", {
        type: "radio",
        name: "order",
        class: "unseen",
        value,
        checked: ordered === (value === "given"),
        disabled: !can,
        on: { change: () => act.dispatch({ type: "orderGiven", ordered: value === "given" }) },
      }),
      h("span", {}, text),
    );
  return h(
    "fieldset",
    { class: "segments" },
    h("legend", { class: "unseen" }, "Who chooses the order"),
    choice("given", "In this order"),
    choice("chosen", "You choose the order", canSort),
  );
}
