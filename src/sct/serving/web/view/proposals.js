// Regions that are proposed, as a list for who has no pointer; on the picture they are seen faintly.

import { openProposals } from "../state/state.js";
import { percent } from "../state/wording.js";
import { h } from "./elements.js";
import { rove } from "./roving.js";

export function proposals(state, act) {
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
