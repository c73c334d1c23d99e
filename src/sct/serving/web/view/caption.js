// The caption: words that can be clicked, doubts, and export buttons.

import { isDoubtful, textSpans } from "../state/captions.js";
import { offeredWords } from "../state/document.js";
import { colorAt } from "../state/palette.js";
import { currentDocument, currentPosition, isCaptionCurrent, selectedCaption } from "../state/state.js";
import { h } from "./elements.js";
import { icon } from "./icons.js";
import { rove } from "./roving.js";
import { highlightedSet } from "./stage.js";
import { wordDetail } from "./word_detail.js";

export function captionView(state, actions) {
  const caption = selectedCaption(state);
  return h(
    "figcaption",
    { class: "caption", key: "caption", "aria-busy": String(state.captionStatus === "waiting") },
    h("div", {
      class: "progress",
      "data-waiting": state.captionStatus === "waiting" || state.detectStatus === "waiting" ? "" : null,
      "aria-hidden": "true",
    }),
    caption ? words(state, actions, caption) : h("p", { class: "words empty", key: "empty" }, emptyText(state)),
    state.error && errorNotice(state, actions),
    caption && wordDetail(state, actions, caption),
    caption && exportButtons(state, actions),
  );
}

function emptyText(state) {
  if (currentDocument(state).sets.length === 0) {
    if (state.detectStatus === "waiting") return "Looking at the image …";
    return state.captionStatus === "waiting" ? "Writing a caption …" : "Click something in the image to get a caption.";
  }
  if (state.captionStatus === "waiting") return "…";
  return state.result ? "No caption meets all the wishes. Fewer words or more length may help." : "";
}

function errorNotice(state, actions) {
  const canRetry = state.captionStatus === "failed" || state.detectStatus === "failed";
  const canUndo = state.captionStatus === "failed" && state.timeline.past.length > 0;
  const offer = state.captionStatus === "failed" ? offeredWords(state.error) : null;
  const button = (label, click) => h("button", { type: "button", class: "button quiet", key: label, on: { click } }, label);
  return h(
    "p",
    { class: "error", role: "alert", key: "error" },
    state.error,
    " ",
    offer?.offered.map((by) =>
      button(`Use “${by}”`, () => actions.dispatch({ type: "wordReplaced", word: offer.word, by })),
    ),
    canRetry && button("Try again", actions.retry),
    canUndo && button("Undo the last change", () => actions.dispatch({ type: "undone" })),
  );
}

/** Listbox of words with one tab stop; noun chunks are groups labelled by their region. */
function words(state, actions, caption) {
  const current = state.highlight?.word ?? state.pinnedWord ?? 0;
  const highlight = highlightedSet(state);
  const word = ({ text, position }) =>
    h(
      "span",
      {
        key: position,
        class: `word${state.highlight?.word === position || state.pinnedWord === position ? " highlighted" : ""}`,
        role: "option",
        focus: `word:${position}`,
        "aria-selected": String(state.pinnedWord === position),
        tabindex: position === current ? "0" : "-1",
        "data-word": position,
        on: {
          pointerenter: (event) => event.pointerType === "mouse" && actions.highlight({ word: position }),
          focus: () => actions.highlight({ word: position }),
          click: () => actions.dispatch({ type: "wordPinned", word: state.pinnedWord === position ? null : position }),
        },
      },
      text,
    );
  const group = (span, number) => {
    const spaced = span.words.flatMap((each, index) => (index > 0 ? [" ", word(each)] : [word(each)]));
    if (span.set === null) return h("span", { key: `between ${number}`, role: "presentation" }, spaced);
    const position = currentPosition(state, state.result, span.set);
    const id = state.result.sets[span.set]?.id;
    const isUnsure = isDoubtful({ fits: span.fits, region_set: span.set }, state.result.sets);
    const name = position < 0 ? "a region that is gone" : `region ${position + 1}`;
    return h(
      "span",
      {
        key: `chunk ${number}`,
        class: `chunk${highlight === id ? " highlighted" : ""}${isUnsure ? " doubtful" : ""}`,
        role: "group",
        "data-set": id,
        "data-position": position,
        "aria-label": isUnsure ? `${name}, doubtful` : name,
        css: { "--color": colorAt(position) },
      },
      h("span", { class: "number", "aria-hidden": "true" }, position < 0 ? "–" : position + 1, isUnsure && "?"),
      spaced,
    );
  };
  return h(
    "p",
    {
      class: `words${isCaptionCurrent(state) ? "" : " stale"}`,
      key: "words",
      id: "caption",
      role: "listbox",
      "aria-orientation": "horizontal",
      "aria-label": `Words of the caption: ${caption.text}`,
      on: {
        keydown: (event) => wordKeys(event, state, actions),
        pointerleave: () => actions.highlight(null),
        focusout: () => actions.highlight(null),
      },
    },
    textSpans(caption).flatMap((span, number) => (number > 0 ? [" ", group(span, number)] : [group(span, number)])),
  );
}

/** Arrow keys move between words; Enter or Space shows the actions of a word and goes to the first one. */
function wordKeys(event, state, actions) {
  const word = Number(event.target.dataset.word);
  if ((event.key === "Enter" || event.key === " ") && Number.isInteger(word)) {
    event.preventDefault();
    actions.dispatch({ type: "wordPinned", word });
    actions.dispatch({ type: "focusRequested", name: "ban-word" });
  } else rove(event, ".word");
}

const EXPORTS = [
  { icon: "copy", name: "Copy text", action: "copyText" },
  { icon: "link", name: "Copy link", action: "copyLink", isOffered: ({ sample }) => sample !== null },
  {
    icon: "save",
    name: "Save regions",
    action: "saveControl",
    title: "Download the regions, to open them here again with the same image",
    isOffered: ({ sample }) => sample === null,
  },
  { icon: "save", name: "PNG", action: "savePng", label: "Download the drawing as PNG" },
  { icon: "save", name: "SVG", action: "saveSvg", label: "Download the drawing as SVG" },
  { icon: "save", name: "JSON", action: "saveJson", label: "Download the caption with its regions as JSON" },
];

/** Only samples have links: an image of the user is in this browser only. */
const exportButtons = ({ image }, actions) =>
  h(
    "div",
    { class: "export", role: "group", "aria-label": "Export the caption", key: "export" },
    EXPORTS.filter(({ isOffered }) => isOffered?.(image) ?? true).map(
      ({ icon: iconName, name, action, label = name, title = label }) =>
        h(
          "button",
          { type: "button", class: "button quiet", key: name, "aria-label": label, title, on: { click: actions[action] } },
          icon(iconName),
          name,
        ),
    ),
  );
