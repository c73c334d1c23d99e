// Regions of the control as chips: move, merge, split, remove.

import { setLabel } from "../state/control.js";
import { colorAt } from "../state/palette.js";
import { currentDocument, shownSets } from "../state/state.js";
import { ordinal } from "../state/format.js";
import { chipKeys } from "../effects/chip_keys.js";
import { h } from "./elements.js";
import { icon, iconButton } from "./icons.js";
import { crop } from "./regions.js";
import { highlightedSet } from "./stage.js";

const HELP = [
  "Arrow keys move between regions.",
  "Space lifts a region, arrow keys move it, Space drops it.",
  "M merges it with the region chosen next. Delete removes it. Enter goes to its box.",
].join(" ");

/** Position in the caption by set id, if the captioner chose the order. */
function mentionPositions(state) {
  const sets = state.result?.captions[state.result.chosen]?.order?.sets;
  return sets ? new Map(sets.map((number, position) => [state.result.sets[number]?.id, position])) : new Map();
}

export function chips(state, actions) {
  const { sets } = currentDocument(state);
  if (sets.length === 0) {
    return h(
      "div",
      { class: "empty-control" },
      h("p", {}, "No regions yet."),
      h(
        "button",
        {
          type: "button",
          class: "button",
          focus: "choose",
          disabled: state.detectStatus !== "ready",
          on: { click: actions.selectRegions },
        },
        icon("spark"),
        "Select for me",
      ),
    );
  }
  const shown = shownSets(state);
  const positions = new Map(shown.map((set, position) => [set.id, position]));
  const mentions = currentDocument(state).ordered ? new Map() : mentionPositions(state);
  const stop = sets.some((set) => set.id === state.selected) ? state.selected : sets[0].id;
  return [
    h("p", { id: "chip-help", class: "visually-hidden" }, HELP),
    h(
      "ol",
      {
        class: "chips",
        role: "list",
        "aria-label": "Regions of the control",
        on: { keydown: (event) => chipKeys(event, state, actions) },
      },
      sets.map((set) =>
        chip(state, actions, set, { position: positions.get(set.id), stop, mention: mentions.get(set.id) }),
      ),
    ),
    setTools(state, actions),
  ];
}

function chip(state, actions, set, { position, stop, mention }) {
  const isSelected = state.selected === set.id;
  const classes = [
    "chip",
    isSelected && "selected",
    highlightedSet(state) === set.id && "highlighted",
    state.lifted === set.id && "lifted",
    state.dragged === set.id && "lifted",
  ];
  const count = shownSets(state).length;
  const boxes = set.boxes.length > 1 ? `, ${set.boxes.length} boxes` : "";
  const mentioned = mention === undefined ? "" : `, mentioned ${ordinal(mention + 1)}`;
  return h(
    "li",
    {
      key: set.id,
      class: classes.filter(Boolean).join(" "),
      css: { order: position, "--color": colorAt(position) },
      "data-set": set.id,
      "data-position": position,
      on: {
        pointerdown: (event) => actions.gestures.chip(event, set.id),
        pointerenter: (event) => event.pointerType === "mouse" && actions.highlight({ set: set.id }),
        pointerleave: () => actions.highlight(null),
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
        "aria-label": `Region ${position + 1} of ${count}: ${setLabel(set)}${boxes}${mentioned}`,
        on: {
          click: () => actions.chooseSet(set.id),
          focus: () => {
            actions.dispatch({ type: "setFocused", set: set.id });
            actions.highlight({ set: set.id });
          },
          blur: () => actions.highlight(null),
        },
      },
      h("span", { class: "number" }, position + 1),
      h(
        "span",
        { class: "crops" },
        set.boxes
          .slice(0, 3)
          .map(({ id, box }) => h("span", { key: id, class: "crop-frame" }, crop(state.image, box))),
      ),
      h("span", { class: "name" }, setLabel(set), set.boxes.length > 1 && h("small", {}, ` ${set.boxes.length} boxes`)),
      mention !== undefined && h("small", { class: "mention-order" }, mentioned.slice(2)),
    ),
    h(
      "span",
      { class: "chip-tools" },
      tool("earlier", `Move region ${position + 1} earlier`, position === 0, () =>
        actions.dispatch({ type: "setMoved", set: set.id, position: position - 1 }),
      ),
      tool("later", `Move region ${position + 1} later`, position === count - 1, () =>
        actions.dispatch({ type: "setMoved", set: set.id, position: position + 1 }),
      ),
      tool("remove", `Remove region ${position + 1}`, false, () =>
        actions.dispatch({ type: "setRemoved", set: set.id }),
      ),
    ),
  );
}

/** Pointer-only button, not a tab stop: chip_keys.js has the same on keys. */
const tool = (iconName, label, disabled, click) =>
  h(
    "button",
    { type: "button", class: "tool", tabindex: "-1", "aria-label": label, title: label, disabled, on: { click } },
    icon(iconName),
  );

function setTools(state, actions) {
  const set = shownSets(state).find(({ id }) => id === state.selected);
  const isMerging = state.mode === "merge";
  return h(
    "div",
    { class: "set-tools", role: "group", "aria-label": "The selected region" },
    iconButton("merge", isMerging ? "Merge with …" : "Merge", {
      class: "button quiet",
      "aria-pressed": String(isMerging),
      disabled: !set,
      title: "Merge the selected region with another one",
      on: { click: () => actions.setMerging(!isMerging) },
    }),
    iconButton("split", "Split", {
      class: "button quiet",
      disabled: !set || set.boxes.length < 2,
      title: "Split the selected region into one region per box",
      on: { click: () => actions.dispatch({ type: "setSplit", set: set.id }) },
    }),
    iconButton("bin", "Clear", {
      class: "button quiet",
      title: "Remove all regions",
      on: { click: () => actions.dispatch({ type: "cleared" }) },
    }),
  );
}
