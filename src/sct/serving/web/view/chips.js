// Regions of the control as chips: rename, move, merge, split, remove.

import { isDoubtful } from "../state/captions.js";
import { givenName, setLabel } from "../state/control.js";
import { colorAt } from "../state/palette.js";
import { currentDocument, isCaptionCurrent, selectedCaption, shownSets } from "../state/state.js";
import { ordinal } from "../state/format.js";
import { chipKeys } from "../effects/chip_keys.js";
import { h } from "./elements.js";
import { icon, iconButton } from "./icons.js";
import { crop } from "./regions.js";
import { highlightedSet } from "./stage.js";

const HELP = [
  "Arrow keys move between regions.",
  "Space lifts a region, arrow keys move it, Space drops it.",
  "F2 renames it. M merges it with the region chosen next. Delete removes it. Enter goes to its box.",
].join(" ");

/** Ids of the sets whose noun chunk is doubtful. */
function doubtfulSets(state) {
  const chunks = isCaptionCurrent(state) ? (selectedCaption(state)?.chunks ?? []) : [];
  const doubtful = chunks.filter((chunk) => isDoubtful(chunk, state.result.sets));
  return new Set(doubtful.map((chunk) => state.result.sets[chunk.region_set]?.id));
}

/** Position in the caption by set id, if the order is automatic. */
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
      h("p", {}, "Nothing yet: click in the image, or"),
      h(
        "button",
        {
          type: "button",
          class: "button",
          focus: "choose",
          disabled: state.detectStatus !== "ready",
          on: { click: actions.suggestRegions },
        },
        icon("spark"),
        "Choose for me",
      ),
    );
  }
  const shown = shownSets(state);
  const positions = new Map(shown.map((set, position) => [set.id, position]));
  const mentions = currentDocument(state).ordered ? new Map() : mentionPositions(state);
  const doubtful = doubtfulSets(state);
  const stop = sets.some((set) => set.id === state.selected) ? state.selected : sets[0].id;
  return [
    h("p", { id: "chip-help", key: "help", class: "visually-hidden" }, HELP),
    currentDocument(state).suggested &&
      h("p", { class: "note", key: "suggested" }, "Chosen automatically: add, remove, rename or reorder them."),
    h(
      "ol",
      {
        class: "chips",
        key: "chips",
        role: "list",
        "aria-label": "Regions that the caption mentions",
        on: { keydown: (event) => chipKeys(event, state, actions) },
      },
      sets.map((set) =>
        chip(state, actions, set, {
          position: positions.get(set.id),
          stop,
          mention: mentions.get(set.id),
          isUnsure: doubtful.has(set.id),
        }),
      ),
    ),
    setTools(state, actions),
  ];
}

function chip(state, actions, set, { position, stop, mention, isUnsure }) {
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
  const isRenaming = state.renaming === set.id;
  const notes = `${givenName(set) ? ", named by you" : ""}${isUnsure ? ", doubtful" : ""}`;
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
        "aria-label": `Region ${position + 1} of ${count}: ${setLabel(set)}${boxes}${mentioned}${notes}`,
        on: {
          click: () => actions.chooseSet(set.id),
          dblclick: () => actions.dispatch({ type: "renamingSet", set: set.id }),
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
      !isRenaming && [
        h(
          "span",
          { class: `name${givenName(set) ? " given" : ""}` },
          setLabel(set),
          set.boxes.length > 1 && h("small", {}, ` ${set.boxes.length} boxes`),
        ),
        isUnsure && h("small", { class: "doubt-note", title: "This name may not fit the region" }, "doubtful"),
        mention !== undefined && h("small", { class: "mention-order" }, mentioned.slice(2)),
      ],
    ),
    isRenaming && renameField(state, actions, set, position),
    h(
      "span",
      { class: "chip-tools", key: "tools" },
      tool("pen", `Rename region ${position + 1}`, false, () =>
        actions.dispatch({ type: "renamingSet", set: set.id }),
      ),
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

/** Name to say for a region; an empty one returns to the detected name. */
function renameField(state, actions, set, position) {
  const rename = (event) => actions.dispatch({ type: "setRenamed", set: set.id, name: event.target.value });
  const names = [...new Set(state.proposals.map(({ name }) => name).filter(Boolean))];
  return h(
    "span",
    { class: "rename", key: "rename" },
    h("input", {
      type: "text",
      class: "text-field",
      focus: "rename",
      list: "names",
      "aria-label": `Name of region ${position + 1} that the caption says`,
      placeholder: setLabel(set),
      maxlength: 60,
      autocomplete: "off",
      autocapitalize: "none",
      enterkeyhint: "done",
      on: {
        keydown: (event) => {
          event.stopPropagation(); // the keys of chips
          if (event.key === "Enter") rename(event);
          if (event.key === "Escape") {
            actions.dispatch({ type: "renamingSet", set: null });
            actions.dispatch({ type: "focusRequested", name: `chip:${set.id}` });
          }
        },
        focus: (event) => {
          event.target.value = givenName(set) ?? "";
          event.target.select();
        },
        blur: (event) => event.target.isConnected && state.renaming === set.id && rename(event),
      },
    }),
    h("datalist", { id: "names" }, names.map((name) => h("option", { key: name, value: name }))),
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
    { class: "set-tools", key: "set-tools", role: "group", "aria-label": "The selected region" },
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
