// The word under the pointer or focus, or the pinned one: where it comes from, and what can be done about it.

import { chunkOfWord, describeFit, describeSource, isDoubtful } from "../state/captions.js";
import { findSet, givenName } from "../state/control.js";
import { colorAt } from "../state/palette.js";
import { currentDocument, currentPosition } from "../state/state.js";
import { h } from "./elements.js";
import { icon } from "./icons.js";
import { shownWord } from "./stage.js";

export function wordDetail(state, actions, caption) {
  const word = shownWord(state);
  if (!word) return h("p", { class: "detail note", key: "detail" }, doubtNote(state, caption));
  const index = caption.words.indexOf(word);
  const position = currentPosition(state, state.result, word.region_set);
  const region = position < 0 ? "a region that is gone" : `region ${position + 1}`;
  return h(
    "div",
    {
      class: "detail",
      key: "detail",
      css: { "--color": colorAt(position) },
      on: { keydown: (event) => event.key === "Escape" && close(actions, index) },
    },
    h(
      "span",
      { class: "bar", "aria-hidden": "true" },
      word.attention.map((share, each) =>
        h("i", { key: each, class: "share", css: { "flex-grow": share, "--nth": each } }),
      ),
      h("i", { key: "sentence", class: "sentence", css: { "flex-grow": word.sentinel_weight } }),
    ),
    h("p", { class: "source" }, h("b", {}, `“${word.text}”`), ` ${describeSource(word, region)}.`, fit(state, caption, index)),
    state.pinnedWord === index && wordActions(state, actions, { word, index, position }),
  );
}

function close(actions, index) {
  actions.dispatch({ type: "wordPinned", word: null });
  actions.dispatch({ type: "focusRequested", name: `word:${index}` });
}

/** What the server says about the fit of the noun chunk around a word. */
function fit(state, caption, index) {
  const chunk = chunkOfWord(caption, index);
  const position = chunk && currentPosition(state, state.result, chunk.region_set);
  const set = chunk && findSet(currentDocument(state).sets, state.result.sets[chunk.region_set]?.id);
  if (chunk && set && givenName(set)) return ` You named region ${position + 1} “${givenName(set)}”.`;
  const words = chunk && describeFit(chunk);
  return words ? ` “${chunk.text}” ${words} region ${position + 1}.` : null;
}

/** Doubtful noun chunks, or how words can be changed. */
function doubtNote(state, caption) {
  const doubtful = caption.chunks.filter((chunk) => isDoubtful(chunk, state.result.sets));
  if (doubtful.length === 0) return "Click a word to change or forbid it.";
  const names = doubtful.map(({ text, region_set: set }) => {
    const position = currentPosition(state, state.result, set);
    return position < 0 ? `“${text}”` : `“${text}” (region ${position + 1})`;
  });
  return [
    h("b", { class: "doubt-note" }, "Doubtful: "),
    `${names.join(" and ")} may not be what the image shows. Rename the region, or click the word to forbid it.`,
  ];
}

function wordActions(state, actions, { word, position }) {
  const set = currentDocument(state).sets[position];
  const button = (iconName, label, focus, click) =>
    h("button", { type: "button", class: "button small", key: label, focus, on: { click } }, icon(iconName), label);
  return h(
    "div",
    { class: "word-actions", role: "group", "aria-label": `Actions for “${word.text}”` },
    button("ban", `Don’t say “${word.text}”`, "ban-word", () =>
      actions.dispatch({ type: "wordsAdded", list: "banned", text: word.text }),
    ),
    button("plus", `Always say “${word.text}”`, null, () =>
      actions.dispatch({ type: "wordsAdded", list: "required", text: word.text }),
    ),
    set &&
      button("pen", `Rename region ${position + 1}`, null, () => actions.dispatch({ type: "renamingSet", set: set.id })),
  );
}
