// The picture and what lies on it: proposals, faintly; the boxes of the control; light where a word looked.

import { area } from "../state/boxes.js";
import { nameOf } from "../state/control.js";
import { percent, whereabouts } from "../state/wording.js";
import { colourOf } from "../state/palette.js";
import { captionOf, openProposals, placeNow, setsOf } from "../state/state.js";
import { h } from "./elements.js";
import { boxKeys } from "../work/box_keys.js";

const HANDLES = ["nw", "n", "ne", "e", "se", "s", "sw", "w"];

export function stage(state, act) {
  const { picture } = state;
  const lights = lightsOf(state);
  return h(
    "div",
    {
      class: "stage",
      key: "stage",
      "data-mode": state.mode,
      "data-lit": lights ? "" : null,
      css: { "--width": picture.width, "--height": picture.height },
      on: { pointerdown: act.gestures.stage, keydown: (event) => boxKeys(event, state, act) },
    },
    h("img", { class: "picture", src: picture.url, alt: pictureText(state), draggable: "false" }),
    veil(picture, lights),
    h(
      "div",
      { class: "regions", role: "group", "aria-label": "Boxes of the control, on the picture" },
      state.showsProposals || state.lit?.proposal !== undefined
        ? openProposals(state).map((each) => proposal(state, each))
        : null,
      setsOf(state).flatMap((set, place) =>
        set.boxes.map((box, index) => controlBox(state, act, set, place, box, index)),
      ),
      setsOf(state).flatMap((set, place) =>
        set.id === state.selected ? set.boxes.map((box) => handles(state, set, place, box)) : [],
      ),
      state.band && h("div", { key: "band", class: "band", css: placed(state.band, picture) }),
    ),
  );
}

const pictureText = (state) => {
  const caption = captionOf(state);
  return caption ? caption.text : `The picture ${state.picture.name}`;
};

const placed = ([x1, y1, x2, y2], { width, height }) => ({
  left: `${(100 * x1) / width}%`,
  top: `${(100 * y1) / height}%`,
  width: `${(100 * (x2 - x1)) / width}%`,
  height: `${(100 * (y2 - y1)) / height}%`,
});

/** Small boxes lie over large ones, so that each can be pointed at. */
const layer = (box, { width, height }) => 1 + Math.round(500 * (1 - area(box) / (width * height)));

function proposal(state, { box, name, score, number }) {
  const isLit = state.lit?.proposal === number;
  if (!state.showsProposals && !isLit) return null;
  return h(
    "div",
    {
      key: `proposal ${number}`,
      class: `proposal${isLit ? " lit" : ""}`,
      "aria-hidden": "true",
      "data-proposal": number,
      css: { ...placed(box, state.picture), "z-index": layer(box, state.picture) },
    },
    h("span", { class: "tag" }, name ?? "region", score === null ? "" : ` ${percent(score)}`),
  );
}

function controlBox(state, act, set, place, { id, box, name }, index) {
  const isSelected = state.selected === set.id;
  const isLit = litSet(state) === set.id;
  return h(
    "div",
    {
      key: `box ${id}`,
      focus: `box:${id}`,
      class: `control-box${isSelected ? " selected" : ""}${isLit ? " lit" : ""}`,
      role: "button",
      tabindex: "0",
      "aria-roledescription": "box",
      "aria-pressed": String(isSelected),
      "aria-label": boxText(state, set, place, box, index),
      "data-box": id,
      "data-set": set.id,
      "data-place": place,
      css: {
        ...placed(box, state.picture),
        "--colour": colourOf(place),
        "z-index": layer(box, state.picture),
      },
      on: {
        pointerenter: (event) => event.pointerType === "mouse" && act.light({ set: set.id, onPicture: true }),
        pointerleave: () => act.light(null),
        focus: () => act.dispatch({ type: "focused", set: set.id }),
      },
    },
    h("span", { class: "number", "aria-hidden": "true" }, place + 1),
    isLit && name && h("span", { class: "tag", "aria-hidden": "true" }, name),
  );
}

/** What a selected box is resized by. It lies over all boxes, while the box itself may lie under smaller ones. */
function handles(state, set, place, { id, box }) {
  return h(
    "div",
    {
      key: `handles ${id}`,
      class: "handles",
      "aria-hidden": "true",
      "data-box": id,
      "data-set": set.id,
      css: { ...placed(box, state.picture), "--colour": colourOf(place) },
    },
    HANDLES.map((handle) => h("span", { key: handle, class: `handle ${handle}`, "data-handle": handle })),
  );
}

function boxText({ picture }, set, place, box, index) {
  const which = set.boxes.length > 1 ? `, box ${index + 1} of ${set.boxes.length}` : "";
  return `Region ${place + 1}, ${nameOf(set)}${which}: ${whereabouts(box, picture)}`;
}

/** The set that is pointed at, on the picture, in the list, or by a word that talks about it. */
export function litSet(state) {
  if (state.lit?.set !== undefined) return state.lit.set;
  const word = state.lit?.word === undefined ? null : captionOf(state)?.words[state.lit.word];
  return word ? (state.answer.sets[word.region_set]?.id ?? null) : null;
}

/** How brightly each box is lit: a word lights boxes as much as it looked at them, a region lights its own fully. */
function lightsOf(state) {
  const sets = setsOf(state);
  if (state.lit?.word !== undefined) {
    const word = captionOf(state)?.words[state.lit.word];
    const set = word && sets[placeNow(state, state.answer, word.region_set)];
    return set ? set.boxes.map(({ box }, index) => ({ box, light: word.attention[index] ?? 0 })) : null;
  }
  const set = sets.find(({ id }) => id === state.lit?.set);
  const isWorkedOn = state.draft !== null || state.lit?.onPicture; // the picture stays bright under the pointer
  return set && !isWorkedOn ? set.boxes.map(({ box }) => ({ box, light: 1 })) : null;
}

/** The picture darkened but for what is looked at; how dark a box stays is how little it was looked at. */
function veil({ width, height }, lights) {
  const whole = { x: 0, y: 0, width, height };
  return h(
    "svg",
    { class: "veil", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    lights && [
      h(
        "mask",
        { id: "lights", maskUnits: "userSpaceOnUse", ...whole },
        h("rect", { ...whole, fill: "white" }),
        lights.map(({ box: [x1, y1, x2, y2], light }) =>
          h("rect", { x: x1, y: y1, width: x2 - x1, height: y2 - y1, fill: "black", "fill-opacity": light }),
        ),
      ),
      h("rect", { class: "dark", ...whole, mask: "url(#lights)" }),
    ],
  );
}
