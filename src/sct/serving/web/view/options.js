// Options of the search, under plain names: max_length, beam_size and cover of a request.

import { OPTIONS } from "../state/document.js";
import { currentDocument } from "../state/state.js";
import { h } from "./elements.js";

export function options(state, actions) {
  const { options: values } = currentDocument(state);
  const set = (name) => (event) =>
    actions.dispatch({
      type: "optionSet",
      name,
      value: event.target.type === "checkbox" ? event.target.checked : event.target.value,
    });
  const range = (name, text) =>
    h(
      "label",
      { class: "range", for: `option-${name}` },
      h("span", {}, text),
      h("output", { for: `option-${name}` }, values[name]),
      h("input", {
        id: `option-${name}`,
        type: "range",
        min: OPTIONS[name].min,
        max: OPTIONS[name].max,
        value: values[name],
        on: { input: set(name) },
      }),
    );
  return h(
    "details",
    { class: "options", key: "options" },
    h("summary", {}, "More options"),
    h(
      "label",
      { class: "switch" },
      h("input", {
        id: "option-cover",
        type: "checkbox",
        role: "switch",
        checked: values.cover,
        on: { change: set("cover") },
      }),
      "Mention every region",
    ),
    range("max_length", "Length limit, in words"),
    range("beam_size", "Search effort"),
  );
}
