// The caption: words with attention details, and export buttons.

import { textSpans } from "../state/captions.js";
import { colorAt } from "../state/palette.js";
import { currentDocument, currentPosition, isCaptionCurrent, selectedCaption } from "../state/state.js";
import { percent } from "../state/format.js";
import { h } from "./elements.js";
import { icon } from "./icons.js";
import { rove } from "./roving.js";
import { highlightedSet } from "./stage.js";

export function captionView(state, actions) {
  const caption = selectedCaption(state);
  return h(
    "figcaption",
    { class: "caption", key: "caption", "aria-busy": String(state.captionStatus === "waiting") },
    h("div", {
      class: "progress",
      "data-waiting": state.captionStatus === "waiting" ? "" : null,
      "aria-hidden": "true",
    }),
    caption ? words(state, actions, caption) : h("p", { class: "words empty" }, emptyText(state)),
    caption && attentionDetail(state, caption),
    state.error &&
      h(
        "p",
        { class: "error", role: "alert" },
        state.error,
        " ",
        state.captionStatus === "failed" &&
          h("button", { type: "button", class: "button quiet", on: { click: actions.retry } }, "Try again"),
      ),
    caption && exportButtons(state, actions),
  );
}

function emptyText(state) {
  if (currentDocument(state).sets.length === 0) {
    return state.detectStatus === "waiting"
      ? "Detecting regions …"
      : "Select a region to get a caption.";
  }
  if (state.captionStatus === "waiting") return "…";
  return state.result ? "No caption meets all constraints. A larger beam or more words may help." : "";
}

/** Listbox of words with one tab stop; noun chunks are groups labelled by their region. */
function words(state, actions, caption) {
  const current = state.highlight?.word ?? 0;
  const highlight = highlightedSet(state);
  const word = ({ text, position, sentinel_weight: textual, region_set: set }) =>
    h(
      "span",
      {
        key: position,
        class: `word${state.highlight?.word === position ? " highlighted" : ""}`,
        role: "option",
        focus: `word:${position}`,
        "aria-selected": String(state.highlight?.word === position),
        tabindex: position === current ? "0" : "-1",
        "data-word": position,
        "aria-label": `${text}: region ${currentPosition(state, state.result, set) + 1}, ${percent(textual)} textual`,
        on: {
          pointerenter: () => actions.highlight({ word: position }),
          focus: () => actions.highlight({ word: position }),
          click: () => actions.highlight({ word: position }),
        },
      },
      text,
    );
  const group = ({ set, words: spanWords }, number) => {
    const spaced = spanWords.flatMap((each, index) => (index > 0 ? [" ", word(each)] : [word(each)]));
    if (set === null) return h("span", { key: `between ${number}`, role: "presentation" }, spaced);
    const position = currentPosition(state, state.result, set);
    const id = state.result.sets[set]?.id;
    return h(
      "span",
      {
        key: `chunk ${number}`,
        class: `chunk${highlight === id ? " highlighted" : ""}`,
        role: "group",
        "data-set": id,
        "data-position": position,
        "aria-label": position < 0 ? "a region that is gone" : `region ${position + 1}`,
        css: { "--color": colorAt(position) },
      },
      h("span", { class: "number", "aria-hidden": "true" }, position < 0 ? "–" : position + 1),
      spaced,
    );
  };
  return h(
    "p",
    {
      class: `words${isCaptionCurrent(state) ? "" : " stale"}`,
      id: "caption",
      role: "listbox",
      "aria-orientation": "horizontal",
      "aria-label": `Words of the caption: ${caption.text}`,
      on: {
        keydown: (event) => rove(event, ".word"),
        pointerleave: () => actions.highlight(null),
        focusout: () => actions.highlight(null),
      },
    },
    textSpans(caption).flatMap((span, number) =>
      number > 0 ? [" ", group(span, number)] : [group(span, number)],
    ),
  );
}

/** Attention of a word as a bar: one part per box of its region, the rest is the visual sentinel. */
function attentionDetail(state, caption) {
  const word = state.highlight?.word === undefined ? null : caption.words[state.highlight.word];
  if (!word) {
    return h("p", { class: "attention hint", key: "attention" }, "Point at a word to see its attention.");
  }
  const position = currentPosition(state, state.result, word.region_set);
  const isSet = word.attention.length > 1;
  return h(
    "div",
    { class: "attention", key: "attention", css: { "--color": colorAt(position) } },
    h(
      "span",
      { class: "bar", "aria-hidden": "true" },
      word.attention.map((share, index) =>
        h("i", { key: index, class: "share", css: { "flex-grow": share, "--nth": index } }),
      ),
      h("i", { key: "textual", class: "textual", css: { "flex-grow": word.sentinel_weight } }),
    ),
    h(
      "span",
      { class: "numbers" },
      h("b", {}, word.text),
      " attends ",
      h("b", {}, percent(1 - word.sentinel_weight)),
      ` to region ${position + 1}`,
      isSet && ` (${word.attention.map(percent).join(", ")})`,
      " · ",
      h("b", {}, percent(word.sentinel_weight)),
      " textual",
      " · shift ",
      h("b", {}, percent(word.shift_probability)),
    ),
  );
}

const EXPORTS = [
  ["copy", "Copy text", "copyText"],
  ["link", "Copy link", "copyLink"],
  ["save", "PNG", "savePng"],
  ["save", "SVG", "saveSvg"],
  ["save", "JSON", "saveJson"],
];
const LABELS = {
  PNG: "Download the drawing as PNG",
  SVG: "Download the drawing as SVG",
  JSON: "Download the grounded caption as JSON",
};

const exportButtons = (state, actions) =>
  h(
    "div",
    { class: "export", role: "group", "aria-label": "Export the caption", key: "export" },
    EXPORTS.map(([iconName, name, action]) =>
      h(
        "button",
        {
          type: "button",
          class: "button quiet",
          key: name,
          "aria-label": LABELS[name] ?? name,
          title: LABELS[name] ?? name,
          on: { click: actions[action] },
        },
        icon(iconName),
        name,
      ),
    ),
  );
