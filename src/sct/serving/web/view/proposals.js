// List of proposals, for keyboard and screen-reader users; the stage shows them on the image.

import { unusedProposals } from "../state/state.js";
import { h } from "./elements.js";
import { crop } from "./regions.js";
import { rove } from "./roving.js";

export function proposals(state, actions) {
  const open = unusedProposals(state);
  const stop = open.find(({ number }) => number === state.highlight?.proposal)?.number ?? open[0]?.number;
  return h(
    "section",
    { class: "proposals", "aria-labelledby": "proposals-title", key: "proposals" },
    h(
      "div",
      { class: "row" },
      h("h3", { id: "proposals-title" }, "Found in the image"),
      h(
        "label",
        { class: "switch" },
        h("input", {
          type: "checkbox",
          role: "switch",
          checked: state.showsProposals,
          on: { change: (event) => actions.dispatch({ type: "proposalsShown", shows: event.target.checked }) },
        }),
        "show on the image",
      ),
    ),
    state.detectStatus === "waiting" && h("p", { class: "note" }, "Looking …"),
    state.detectStatus === "ready" &&
      open.length === 0 &&
      h("p", { class: "note" }, state.proposals.length ? "All of them are in use." : "Nothing: click on the image, or draw a box."),
    h(
      "ul",
      {
        class: "pills",
        role: "list",
        "aria-label": "Regions found in the image",
        on: { keydown: (event) => rove(event, ".pill") },
      },
      open.map(({ number, name, box }) =>
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
              "aria-label": `Add ${name ?? "region"}`,
              on: {
                click: () => actions.addProposal(number),
                focus: () => actions.highlight({ proposal: number }),
                blur: () => actions.highlight(null),
                pointerenter: () => actions.highlight({ proposal: number }),
                pointerleave: () => actions.highlight(null),
              },
            },
            h("span", { class: "crop-frame" }, crop(state.image, box)),
            name ?? "region",
          ),
        ),
      ),
    ),
  );
}
