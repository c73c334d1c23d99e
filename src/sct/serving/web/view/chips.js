// The regions of the control as chips, in their order: dragged, carried, merged, split, removed.

import { nameOf } from "../state/control.js";
import { colourOf } from "../state/palette.js";
import { documentOf, setsOf } from "../state/state.js";
import { ordinal } from "../state/wording.js";
import { chipKeys } from "../work/chip_keys.js";
import { h } from "./elements.js";
import { icon, iconButton } from "./icons.js";
import { crop } from "./regions.js";
import { litSet } from "./stage.js";

const HELP = [
  "Arrow keys go from region to region.",
  "Space lifts a region, arrow keys carry it, Space puts it down.",
  "M merges it with the next one you choose. Delete removes it. Enter goes to its box.",
].join(" ");

/** Where each region comes in the caption, when the captioner chose the order. */
function spokenPlaces(state) {
  const sets = state.answer?.captions[state.answer.chosen]?.order?.sets;
  return sets ? new Map(sets.map((number, place) => [state.answer.sets[number]?.id, place])) : new Map();
}

export function chips(state, act) {
  const { sets } = documentOf(state);
  if (sets.length === 0) {
    return h(
      "div",
      { class: "nothing" },
      h("p", {}, "Nothing is pointed at yet."),
      h(
        "button",
        {
          type: "button",
          class: "button",
          focus: "choose",
          disabled: state.looking !== "ready",
          on: { click: act.chooseForMe },
        },
        icon("spark"),
        "Choose for me",
      ),
    );
  }
  const shown = setsOf(state);
  const places = new Map(shown.map((set, place) => [set.id, place]));
  const spoken = documentOf(state).ordered ? new Map() : spokenPlaces(state);
  const stop = sets.some((set) => set.id === state.selected) ? state.selected : sets[0].id;
  return [
    h("p", { id: "chip-help", class: "unseen" }, HELP),
    h(
      "ol",
      {
        class: "chips",
        role: "list",
        "aria-label": "Regions of the control",
        on: { keydown: (event) => chipKeys(event, state, act) },
      },
      sets.map((set) => chip(state, act, set, { place: places.get(set.id), stop, spoken: spoken.get(set.id) })),
    ),
    setTools(state, act),
  ];
}

function chip(state, act, set, { place, stop, spoken }) {
  const isSelected = state.selected === set.id;
  const classes = [
    "chip",
    isSelected && "selected",
    litSet(state) === set.id && "lit",
    state.lifted === set.id && "lifted",
    state.dragged === set.id && "lifted",
  ];
  const count = setsOf(state).length;
  const boxes = set.boxes.length > 1 ? `, ${set.boxes.length} boxes` : "";
  const said = spoken === undefined ? "" : `, said ${ordinal(spoken + 1)}`;
  return h(
    "li",
    {
      key: set.id,
      class: classes.filter(Boolean).join(" "),
      css: { order: place, "--colour": colourOf(place) },
      "data-set": set.id,
      "data-place": place,
      on: {
        pointerdown: (event) => act.gestures.chip(event, set.id),
        pointerenter: (event) => event.pointerType === "mouse" && act.light({ set: set.id }),
        pointerleave: () => act.light(null),
      },
    },
    h("span", { class: "grip", "aria-hidden": "true" }, icon("grip")),
    h(
      "button",
      {
        type: "button",
        class: "chip-name",
        focus: `chip:${set.id}`,
        tabindex: set.id === stop ? "0" : "-1",
        "aria-pressed": String(isSelected),
        "aria-describedby": "chip-help",
        "aria-label": `Region ${place + 1} of ${count}: ${nameOf(set)}${boxes}${said}`,
        on: {
          click: () => act.chooseSet(set.id),
          focus: () => {
            act.dispatch({ type: "focused", set: set.id });
            act.light({ set: set.id });
          },
          blur: () => act.light(null),
        },
      },
      h("span", { class: "number" }, place + 1),
      h(
        "span",
        { class: "crops" },
        set.boxes
          .slice(0, 3)
          .map(({ id, box }) => h("span", { key: id, class: "crop-frame" }, crop(state.picture, box))),
      ),
      h("span", { class: "name" }, nameOf(set), set.boxes.length > 1 && h("small", {}, ` ${set.boxes.length} boxes`)),
      spoken !== undefined && h("small", { class: "spoken" }, said.slice(2)),
    ),
    h(
      "span",
      { class: "chip-tools" },
      tool("earlier", `Move region ${place + 1} earlier`, place === 0, () =>
        act.dispatch({ type: "reordered", set: set.id, place: place - 1 }),
      ),
      tool("later", `Move region ${place + 1} later`, place === count - 1, () =>
        act.dispatch({ type: "reordered", set: set.id, place: place + 1 }),
      ),
      tool("remove", `Remove region ${place + 1}`, false, () => act.dispatch({ type: "removedSet", set: set.id })),
    ),
  );
}

/** For a pointer alone: the same is on keys, so these are no tab stops. */
const tool = (drawing, label, disabled, click) =>
  h(
    "button",
    { type: "button", class: "tool", tabindex: "-1", "aria-label": label, title: label, disabled, on: { click } },
    icon(drawing),
  );

function setTools(state, act) {
  const set = setsOf(state).find(({ id }) => id === state.selected);
  const isMerging = state.mode === "merge";
  return h(
    "div",
    { class: "set-tools", role: "group", "aria-label": "The selected region" },
    iconButton("merge", isMerging ? "Merge with …" : "Merge", {
      class: "button quiet",
      "aria-pressed": String(isMerging),
      disabled: !set,
      title: "Merge the selected region with another one",
      on: { click: () => act.merge(!isMerging) },
    }),
    iconButton("split", "Split", {
      class: "button quiet",
      disabled: !set || set.boxes.length < 2,
      title: "Make each box of the selected region a region of its own",
      on: { click: () => act.dispatch({ type: "split", set: set.id }) },
    }),
    iconButton("bin", "Clear", {
      class: "button quiet",
      title: "Remove all regions",
      on: { click: () => act.dispatch({ type: "cleared" }) },
    }),
  );
}
