// The image with overlays: proposals, boxes of the control, attention of a highlighted word.

import { area } from "../state/boxes.js";
import { boxName, setLabel } from "../state/control.js";
import { describeBox } from "../state/format.js";
import { colorAt } from "../state/palette.js";
import { currentPosition, selectedCaption, shownSets, unusedProposals } from "../state/state.js";
import { h } from "./elements.js";
import { boxKeys } from "../effects/box_keys.js";

const HANDLES = ["nw", "n", "ne", "e", "se", "s", "sw", "w"];

export function stage(state, actions) {
  const { image } = state;
  const spots = spotlights(state);
  return h(
    "div",
    {
      class: "stage",
      key: "stage",
      "data-mode": state.mode,
      "data-highlighted": spots ? "" : null,
      "data-controlled": shownSets(state).length > 0 ? "" : null,
      "data-pointing": state.highlight?.proposal !== undefined || state.highlight?.onImage ? "" : null,
      css: { "--width": image.width, "--height": image.height },
      on: {
        pointerdown: actions.gestures.stage,
        pointermove: actions.gestures.hover,
        pointerleave: () => actions.highlight(null),
        keydown: (event) => boxKeys(event, state, actions),
      },
    },
    h("img", { class: "image", src: image.url, alt: imageText(state), draggable: "false" }),
    dimmer(image, spots),
    h(
      "div",
      { class: "regions", role: "group", "aria-label": "Regions on the image" },
      state.showsProposals || state.highlight?.proposal !== undefined
        ? unusedProposals(state).map((each) => proposal(state, each))
        : null,
      shownSets(state).flatMap((set, position) =>
        set.boxes.map((box, index) => controlBox(state, actions, set, position, box, index)),
      ),
      shownSets(state).flatMap((set, position) =>
        set.id === state.selected ? set.boxes.map((box) => handles(state, set, position, box)) : [],
      ),
      state.band && h("div", { key: "band", class: "band", css: boxStyle(state.band, image) }),
    ),
  );
}

const imageText = (state) => {
  const caption = selectedCaption(state);
  return caption ? caption.text : `Image ${state.image.name}`;
};

const boxStyle = ([x1, y1, x2, y2], { width, height }) => ({
  left: `${(100 * x1) / width}%`,
  top: `${(100 * y1) / height}%`,
  width: `${(100 * (x2 - x1)) / width}%`,
  height: `${(100 * (y2 - y1)) / height}%`,
});

/** Small boxes lie above large ones, so that each can be clicked. */
const zIndex = (box, { width, height }) => 1 + Math.round(500 * (1 - area(box) / (width * height)));

function proposal(state, { box, name, number }) {
  const isHighlighted = state.highlight?.proposal === number;
  if (!state.showsProposals && !isHighlighted) return null;
  return h(
    "div",
    {
      key: `proposal ${number}`,
      class: `proposal${isHighlighted ? " highlighted" : ""}`,
      "aria-hidden": "true",
      "data-proposal": number,
      css: { ...boxStyle(box, state.image), "z-index": zIndex(box, state.image) },
    },
    h("span", { class: "tag" }, name ?? "region"),
  );
}

function controlBox(state, actions, set, position, { id, box, ...names }, index) {
  const name = boxName(names);
  const isSelected = state.selected === set.id;
  const isHighlighted = highlightedSet(state) === set.id;
  return h(
    "div",
    {
      key: `box ${id}`,
      focus: `box:${id}`,
      class: `control-box${isSelected ? " selected" : ""}${isHighlighted ? " highlighted" : ""}`,
      role: "button",
      tabindex: "0",
      "aria-roledescription": "box",
      "aria-pressed": String(isSelected),
      "aria-label": boxLabel(state, set, position, box, index),
      "data-box": id,
      "data-set": set.id,
      "data-position": position,
      css: {
        ...boxStyle(box, state.image),
        "--color": colorAt(position),
        "z-index": zIndex(box, state.image),
      },
      on: {
        focus: () => actions.dispatch({ type: "setFocused", set: set.id }),
      },
    },
    h("span", { class: "number", "aria-hidden": "true" }, position + 1),
    isHighlighted && name && h("span", { class: "tag", "aria-hidden": "true" }, name),
  );
}

/** Resize handles of a selected box, above all boxes. */
function handles(state, set, position, { id, box }) {
  return h(
    "div",
    {
      key: `handles ${id}`,
      class: "handles",
      "aria-hidden": "true",
      "data-box": id,
      "data-set": set.id,
      css: { ...boxStyle(box, state.image), "--color": colorAt(position) },
    },
    HANDLES.map((handle) => h("span", { key: handle, class: `handle ${handle}`, "data-handle": handle })),
  );
}

function boxLabel({ image }, set, position, box, index) {
  const which = set.boxes.length > 1 ? `, box ${index + 1} of ${set.boxes.length}` : "";
  return `Region ${position + 1}, ${setLabel(set)}${which}: ${describeBox(box, image)}`;
}

/** Word of the caption under the pointer or focus, else the pinned one; null if neither. */
export const shownWord = (state) =>
  selectedCaption(state)?.words[state.highlight?.word ?? state.pinnedWord] ?? null;

/** Id of the highlighted set, directly or through a word of the caption; null if none. */
export function highlightedSet(state) {
  if (state.highlight?.set !== undefined) return state.highlight.set;
  const word = shownWord(state);
  return word ? (state.result.sets[word.region_set]?.id ?? null) : null;
}

/** Boxes to spotlight with a weight: a word's attention, or 1 for the boxes of a highlighted region. */
function spotlights(state) {
  const sets = shownSets(state);
  const isOther = state.draft !== null || (state.highlight && state.highlight.word === undefined);
  const word = isOther ? null : shownWord(state);
  if (word) {
    const set = sets[currentPosition(state, state.result, word.region_set)];
    return set ? set.boxes.map(({ box }, index) => ({ box, weight: word.attention[index] ?? 0 })) : null;
  }
  const set = sets.find(({ id }) => id === state.highlight?.set);
  const isEdited = state.draft !== null || state.highlight?.onImage; // do not dim the image under the pointer
  return set && !isEdited ? set.boxes.map(({ box }) => ({ box, weight: 1 })) : null;
}

/** Dim the image except for the spotlights, by their weights. */
function dimmer({ width, height }, spots) {
  const whole = { x: 0, y: 0, width, height };
  return h(
    "svg",
    { class: "dimmer", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    spots && [
      h(
        "mask",
        { id: "spots", maskUnits: "userSpaceOnUse", ...whole },
        h("rect", { ...whole, fill: "white" }),
        spots.map(({ box: [x1, y1, x2, y2], weight }) =>
          h("rect", { x: x1, y: y1, width: x2 - x1, height: y2 - y1, fill: "black", "fill-opacity": weight }),
        ),
      ),
      h("rect", { class: "dark", ...whole, mask: "url(#spots)" }),
    ],
  );
}
