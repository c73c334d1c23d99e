// Before there is a picture: drop one, paste one, choose one, or take a sample.

import { SAMPLES } from "../work/pictures.js";
import { h } from "./elements.js";

export function start(state, act) {
  return h(
    "main",
    { class: "start", key: "start" },
    h(
      "section",
      { class: "welcome" },
      h("p", { class: "lead" }, "Point at what matters in a picture, in your order, and read a sentence that says it."),
      state.wanted && wanted(state.wanted),
      h(
        "label",
        { class: "drop", for: "file" },
        h("input", {
          id: "file",
          type: "file",
          accept: "image/*",
          class: "unseen",
          focus: "file",
          on: { change: (event) => act.openFile(event.target.files[0]) },
        }),
        h("strong", {}, "Choose a picture"),
        h("span", {}, "or drop it anywhere on this page, or paste it"),
      ),
      h("p", { class: "note" }, "It goes to the captioner on this server and nowhere else, and is not kept on disk."),
      state.server?.model?.can_see === false &&
        h(
          "p",
          { class: "trouble" },
          "The model that is served cannot see pictures: serve one that can (sct serve --model).",
        ),
      state.trouble && h("p", { class: "trouble", role: "alert" }, state.trouble),
    ),
    h(
      "section",
      { class: "samples", "aria-labelledby": "samples-title" },
      h("h2", { id: "samples-title" }, "Or begin with one of these"),
      h(
        "ul",
        { role: "list" },
        SAMPLES.map((sample) =>
          h(
            "li",
            { key: sample.name },
            h(
              "button",
              { type: "button", class: "sample", on: { click: () => act.openSample(sample) } },
              h("img", { src: sample.file, alt: "" }),
              h("span", {}, sample.shows),
            ),
          ),
        ),
      ),
    ),
  );
}

function wanted({ name, document }) {
  const count = document.sets.length;
  return h(
    "p",
    { class: "wanted" },
    "This link holds ",
    count === 1 ? "one region" : `${count} regions`,
    " of a picture, but not the picture",
    name ? [" (", h("b", {}, name), ")"] : "",
    ". Open it here and they will be back.",
  );
}
