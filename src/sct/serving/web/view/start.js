// Start screen: open, drop or paste an image, or choose a sample.

import { SAMPLES } from "../effects/images.js";
import { h } from "./elements.js";
import { fileChooser, imageCards } from "./images.js";

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
        "Point at things in an image and get a caption that mentions them, in your order.",
      ),
      state.pendingControl && controlNotice(state.pendingControl),
      fileChooser(
        actions,
        { class: "drop", for: "file" },
        h("strong", {}, "Choose images"),
        h("span", {}, "or drop them anywhere on this page, or paste one"),
      ),
      h(
        "p",
        { class: "note" },
        "Images are sent to this server only, which does not write them to disk.",
      ),
      state.server?.model?.has_vision === false &&
        h(
          "p",
          { class: "error" },
          "This model has no vision encoder: serve one that has (sct serve --model).",
        ),
      state.error && h("p", { class: "error", role: "alert" }, state.error),
    ),
    imageCards(state, actions),
    h(
      "section",
      { class: "samples", "aria-labelledby": "samples-title" },
      h("h2", { id: "samples-title" }, "Or try a sample"),
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

function controlNotice({ image, document }) {
  const count = document.sets.length;
  return h(
    "p",
    { class: "pending-control" },
    "This file has ",
    count === 1 ? "one region" : `${count} regions`,
    " of the image ",
    h("b", {}, image.name),
    ". Open that image to use them.",
  );
}
