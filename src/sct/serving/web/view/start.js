// Start screen: open, drop or paste an image, or choose a sample.

import { SAMPLES } from "../effects/images.js";
import { h } from "./elements.js";

export function start(state, actions) {
  return h(
    "main",
    { class: "start", key: "start" },
    h(
      "section",
      { class: "welcome" },
      h(
        "p",
        { class: "lead" },
        "Select regions of an image, in any order, and get a caption that describes them in that order.",
      ),
      state.pendingLink && linkNotice(state.pendingLink),
      h(
        "label",
        { class: "drop", for: "file" },
        h("input", {
          id: "file",
          type: "file",
          accept: "image/*",
          class: "visually-hidden",
          focus: "file",
          on: { change: (event) => actions.openFile(event.target.files[0]) },
        }),
        h("strong", {}, "Choose an image"),
        h("span", {}, "or drop it anywhere on this page, or paste it"),
      ),
      h("p", { class: "note" }, "It is sent to this server only and never written to disk."),
      state.server?.model?.has_vision === false &&
        h(
          "p",
          { class: "error" },
          "This model has no vision encoder: serve one that has (sct serve --model).",
        ),
      state.error && h("p", { class: "error", role: "alert" }, state.error),
    ),
    h(
      "section",
      { class: "samples", "aria-labelledby": "samples-title" },
      h("h2", { id: "samples-title" }, "Or start with a sample"),
      h(
        "ul",
        { role: "list" },
        SAMPLES.map((sample) =>
          h(
            "li",
            { key: sample.name },
            h(
              "button",
              { type: "button", class: "sample", on: { click: () => actions.openSample(sample) } },
              h("img", { src: sample.file, alt: "" }),
              h("span", {}, sample.title),
            ),
          ),
        ),
      ),
    ),
  );
}

function linkNotice({ name, document }) {
  const count = document.sets.length;
  return h(
    "p",
    { class: "pending-link" },
    "This link has ",
    count === 1 ? "one region" : `${count} regions`,
    " of an image, but not the image",
    name ? [" (", h("b", {}, name), ")"] : "",
    ". Open the image to restore them.",
  );
}
