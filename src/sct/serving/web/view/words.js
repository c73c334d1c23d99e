// Words that the caption must not or must say, as removable chips with a field for more.

import { currentDocument } from "../state/state.js";
import { h } from "./elements.js";
import { icon } from "./icons.js";

const LISTS = [
  ["banned", "Don’t say", "Word the caption must not say"],
  ["required", "Always say", "Word the caption must say"],
];

export const words = (state, actions) =>
  currentDocument(state).sets.length > 0 &&
  h(
    "section",
    { class: "wordlists", key: "words", "aria-label": "Words" },
    LISTS.map(([list, title, label]) => wordList(state, actions, { list, title, label })),
  );

function wordList(state, actions, { list, title, label }) {
  const add = (event) => {
    event.preventDefault();
    const field = event.currentTarget.querySelector("input");
    actions.dispatch({ type: "wordsAdded", list, text: field.value });
    field.value = "";
  };
  return h(
    "form",
    { key: list, class: `wordlist ${list}`, "data-list": list, on: { submit: add } },
    h("h3", { id: `${list}-title` }, title),
    h(
      "ul",
      { role: "list", "aria-labelledby": `${list}-title` },
      currentDocument(state)[list].map((word) =>
        h(
          "li",
          { key: word },
          h(
            "button",
            {
              type: "button",
              class: "word-chip",
              focus: `${list}:${word}`,
              "aria-label": `Remove “${word}”`,
              title: `Remove “${word}”`,
              on: { click: () => actions.dispatch({ type: "wordRemoved", list, word }) },
            },
            h("span", {}, word),
            icon("remove"),
          ),
        ),
      ),
      h(
        "li",
        { key: "add", class: "add-word" },
        h("input", {
          type: "text",
          class: "text-field",
          focus: `add-${list}`,
          "aria-label": label,
          placeholder: "word",
          maxlength: 40,
          autocomplete: "off",
          autocapitalize: "none",
          enterkeyhint: "done",
        }),
        h("button", { type: "submit", class: "tool", "aria-label": `Add to “${title}”`, title: "Add" }, icon("plus")),
      ),
    ),
  );
}
