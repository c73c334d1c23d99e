// The caption under its picture: words that can be pointed at, where they looked, and what may be done with it all.

import { stretches } from "../state/captions.js";
import { colourOf } from "../state/palette.js";
import { captionOf, documentOf, isCurrent, placeNow } from "../state/state.js";
import { percent } from "../state/wording.js";
import { h } from "./elements.js";
import { icon } from "./icons.js";
import { rove } from "./roving.js";
import { litSet } from "./stage.js";

export function captionView(state, act) {
  const caption = captionOf(state);
  return h(
    "figcaption",
    { class: "caption", key: "caption", "aria-busy": String(state.asking === "waiting") },
    h("div", { class: "progress", "data-waiting": state.asking === "waiting" ? "" : null, "aria-hidden": "true" }),
    caption ? words(state, act, caption) : h("p", { class: "words empty" }, emptyText(state)),
    caption && look(state, caption),
    state.trouble &&
      h(
        "p",
        { class: "trouble", role: "alert" },
        state.trouble,
        " ",
        state.asking === "failed" &&
          h("button", { type: "button", class: "button quiet", on: { click: act.askAgain } }, "Try again"),
      ),
    caption && keep(state, act),
  );
}

function emptyText(state) {
  if (documentOf(state).sets.length === 0) {
    return state.looking === "waiting"
      ? "Looking at the picture …"
      : "Point at something, and a sentence about it will stand here.";
  }
  if (state.asking === "waiting") return "…";
  return state.answer ? "No caption holds to all that is asked of it. A larger beam or more words may help." : "";
}

/** A list of words with one tab stop; chunks are groups in it that are named by their region. */
function words(state, act, caption) {
  const current = state.lit?.word ?? 0;
  const lit = litSet(state);
  const word = ({ text, place, sentinel_weight: textual, region_set: set }) =>
    h(
      "span",
      {
        key: place,
        class: `word${state.lit?.word === place ? " lit" : ""}`,
        role: "option",
        focus: `word:${place}`,
        "aria-selected": String(state.lit?.word === place),
        tabindex: place === current ? "0" : "-1",
        "data-word": place,
        "aria-label": `${text}: on region ${placeNow(state, state.answer, set) + 1}, ${percent(textual)} textual`,
        on: {
          pointerenter: () => act.light({ word: place }),
          focus: () => act.light({ word: place }),
          click: () => act.light({ word: place }),
        },
      },
      text,
    );
  const group = ({ set, words: said }, number) => {
    const spaced = said.flatMap((each, index) => (index > 0 ? [" ", word(each)] : [word(each)]));
    if (set === null) return h("span", { key: `between ${number}`, role: "presentation" }, spaced);
    const place = placeNow(state, state.answer, set);
    const id = state.answer.sets[set]?.id;
    return h(
      "span",
      {
        key: `chunk ${number}`,
        class: `chunk${lit === id ? " lit" : ""}`,
        role: "group",
        "data-set": id,
        "data-place": place,
        "aria-label": place < 0 ? "a region that is gone" : `region ${place + 1}`,
        css: { "--colour": colourOf(place) },
      },
      h("span", { class: "number", "aria-hidden": "true" }, place < 0 ? "–" : place + 1),
      spaced,
    );
  };
  return h(
    "p",
    {
      class: `words${isCurrent(state) ? "" : " stale"}`,
      id: "caption",
      role: "listbox",
      "aria-orientation": "horizontal",
      "aria-label": `Words of the caption: ${caption.text}`,
      on: {
        keydown: (event) => rove(event, ".word"),
        pointerleave: () => act.light(null),
        focusout: () => act.light(null),
      },
    },
    stretches(caption).flatMap((stretch, number) =>
      number > 0 ? [" ", group(stretch, number)] : [group(stretch, number)],
    ),
  );
}

/** Where a word looked, as a bar: a part for each box of its region, the rest is text alone. */
function look(state, caption) {
  const word = state.lit?.word === undefined ? null : caption.words[state.lit.word];
  if (!word) {
    return h(
      "p",
      { class: "look hint", key: "look" },
      "Point at a word to see where it looked and how textual it was.",
    );
  }
  const place = placeNow(state, state.answer, word.region_set);
  const many = word.attention.length > 1;
  return h(
    "div",
    { class: "look", key: "look", css: { "--colour": colourOf(place) } },
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
      " looked ",
      h("b", {}, percent(1 - word.sentinel_weight)),
      ` at region ${place + 1}`,
      many && ` (${word.attention.map(percent).join(", ")})`,
      " · ",
      h("b", {}, percent(word.sentinel_weight)),
      " textual",
      " · moves on ",
      h("b", {}, percent(word.shift_probability)),
    ),
  );
}

const KEPT = [
  ["copy", "Copy text", "copyText"],
  ["link", "Copy link", "copyLink"],
  ["save", "PNG", "savePng"],
  ["save", "SVG", "saveSvg"],
  ["save", "JSON", "saveJson"],
];
const SAVED = {
  PNG: "Download the drawing as PNG",
  SVG: "Download the drawing as SVG",
  JSON: "Download the grounded caption as JSON",
};

const keep = (state, act) =>
  h(
    "div",
    { class: "keep", role: "group", "aria-label": "Keep this caption", key: "keep" },
    KEPT.map(([drawing, name, deed]) =>
      h(
        "button",
        {
          type: "button",
          class: "button quiet",
          key: name,
          "aria-label": SAVED[name] ?? name,
          title: SAVED[name] ?? name,
          on: { click: act[deed] },
        },
        icon(drawing),
        name,
      ),
    ),
  );
