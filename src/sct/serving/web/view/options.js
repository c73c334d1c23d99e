// How a caption is looked for.

import { OPTIONS } from "../state/document.js";
import { documentOf } from "../state/state.js";
import { h } from "./elements.js";

export function options(state, act) {
  const { options: values } = documentOf(state);
  const set = (name) => (event) =>
    act.dispatch({
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
        min: OPTIONS[name].least,
        max: OPTIONS[name].most,
        value: values[name],
        on: { input: set(name) },
      }),
    );
  return h(
    "details",
    { class: "options", open: true, key: "options" },
    h("summary", {}, "Options"),
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
      "Talk about every region",
    ),
    range("longest", "Most words"),
    range("beam", "Beam, how widely to search"),
  );
}
