// The control: which regions, in which order; what else is asked of a caption.

import { nameOf } from "../state/control.js";
import { OPTIONS } from "../state/document.js";
import { percent } from "../state/captions.js";
import { colourOf } from "../state/palette.js";
import { documentOf, openProposals, setsOf } from "../state/state.js";
import { chipKeys } from "../work/chip_keys.js";
import { h } from "./elements.js";
import { icon, iconButton } from "./icons.js";
import { crop } from "./regions.js";
import { rove } from "./roving.js";
import { litSet } from "./stage.js";

export function control(state, act) {
  return h(
    "section",
    { class: "control", key: "control", "aria-labelledby": "control-title" },
    h("h2", { id: "control-title" }, "Control"),
    order(state, act),
    chips(state, act),
    proposals(state, act),
    options(state, act),
  );
}

function order(state, act) {
  const { ordered } = documentOf(state);
  const canSort = state.server?.model?.can_sort !== false;
  const choice = (value, text, can = true) =>
    h(
      "label",
      { class: "choice", title: can ? null : "This model has no sorter" },
      h("input", {
        type: "radio",
        name: "order",
        class: "unseen",
        value,
        checked: ordered === (value === "given"),
        disabled: !can,
        on: { change: () => act.dispatch({ type: "orderGiven", ordered: value === "given" }) },
      }),
      h("span", {}, text),
    );
  return h(
    "fieldset",
    { class: "segments" },
    h("legend", { class: "unseen" }, "Who chooses the order"),
    choice("given", "In this order"),
    choice("chosen", "You choose the order", canSort),
  );
}

/** Where each region comes in the caption, when the captioner chose the order. */
function spokenPlaces(state) {
  const sets = state.answer?.captions[state.answer.chosen]?.order?.sets;
  return sets ? new Map(sets.map((number, place) => [state.answer.sets[number]?.id, place])) : new Map();
}

function chips(state, act) {
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
    h(
      "p",
      { id: "chip-help", class: "unseen" },
      "Arrow keys go from region to region. Space lifts a region, arrow keys carry it, Space puts it down. M merges it with the next one you choose. Delete removes it. Enter goes to its box.",
    ),
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
        "aria-label": `Region ${place + 1} of ${count}: ${nameOf(set)}${boxes}${spoken === undefined ? "" : `, spoken ${spoken + 1}.`}`,
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
      spoken !== undefined && h("small", { class: "spoken" }, `said ${ordinal(spoken + 1)}`),
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

const ordinal = (number) =>
  `${number}${["th", "st", "nd", "rd"][number % 100 > 10 && number % 100 < 14 ? 0 : number % 10] ?? "th"}`;

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

function proposals(state, act) {
  const open = openProposals(state);
  const stop = open.find(({ number }) => number === state.lit?.proposal)?.number ?? open[0]?.number;
  return h(
    "section",
    { class: "proposals", "aria-labelledby": "proposals-title", key: "proposals" },
    h(
      "div",
      { class: "row" },
      h("h3", { id: "proposals-title" }, "Proposed"),
      h(
        "label",
        { class: "switch" },
        h("input", {
          type: "checkbox",
          role: "switch",
          checked: state.showsProposals,
          on: { change: (event) => act.dispatch({ type: "proposalsShown", shows: event.target.checked }) },
        }),
        "show on the picture",
      ),
    ),
    state.looking === "waiting" && h("p", { class: "note" }, "Looking …"),
    state.looking === "ready" &&
      open.length === 0 &&
      h("p", { class: "note" }, state.proposals.length ? "All are in the control." : "None here: draw a box."),
    h(
      "ul",
      {
        class: "pills",
        role: "list",
        "aria-label": "Proposed regions",
        on: { keydown: (event) => rove(event, ".pill") },
      },
      open.map(({ number, name, score }) =>
        h(
          "li",
          { key: number },
          h(
            "button",
            {
              type: "button",
              class: "pill",
              focus: `proposal:${number}`,
              tabindex: number === stop ? "0" : "-1",
              "aria-label": `Add ${name ?? "region"}${score === null ? "" : `, ${percent(score)} sure`}`,
              on: {
                click: () => act.addProposal(number),
                focus: () => act.light({ proposal: number }),
                blur: () => act.light(null),
                pointerenter: () => act.light({ proposal: number }),
                pointerleave: () => act.light(null),
              },
            },
            name ?? "region",
            score !== null && h("small", {}, percent(score)),
          ),
        ),
      ),
    ),
  );
}

function options(state, act) {
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
