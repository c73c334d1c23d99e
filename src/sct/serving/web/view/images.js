// The list of images: a strip in the workbench, cards on the start screen.

import { isDoubtful } from "../state/captions.js";
import { entryCaption } from "../state/images.js";
import { h } from "./elements.js";
import { icon } from "./icons.js";

/** State of an entry in words. */
export function entryStatus(entry) {
  const caption = entryCaption(entry);
  if (caption) return caption.text;
  if (entry.error) return entry.error;
  return entry.timeline.present.document.sets.length === 0 && entry.captionStatus === "idle" && entry.detectStatus === "ready"
    ? "No regions chosen"
    : "Waiting for a caption …";
}

/** File chooser that looks like a button. */
export const fileChooser = (actions, properties, ...children) =>
  h(
    "label",
    properties,
    h("input", {
      id: "file",
      type: "file",
      accept: "image/*,application/json",
      multiple: true,
      class: "visually-hidden",
      focus: "file",
      on: {
        change: (event) => {
          actions.openFiles([...event.target.files]);
          event.target.value = ""; // choosing the same file again is a change too
        },
      },
    }),
    ...children,
  );

export function imageStrip(state, actions) {
  if (state.images.length < 2) return null;
  return h(
    "nav",
    { class: "strip", key: "strip", "aria-label": "Images" },
    h(
      "ol",
      { role: "list" },
      state.images.map((entry) =>
        h(
          "li",
          { key: entry.image.id },
          h(
            "button",
            {
              type: "button",
              class: "strip-image",
              "aria-current": entry.image.id === state.image.id ? "true" : null,
              "aria-label": `${entry.image.name}: ${entryStatus(entry)}`,
              title: `${entry.image.name}: ${entryStatus(entry)}`,
              "data-ready": entryCaption(entry) ? "" : null,
              on: { click: () => entry.image.id !== state.image.id && actions.show(entry.image.id) },
            },
            h("img", { src: entry.image.url, alt: "" }),
          ),
        ),
      ),
      h(
        "li",
        { key: "add" },
        fileChooser(
          actions,
          { class: "strip-add", for: "file", title: "Add images" },
          icon("plus"),
          h("span", { class: "visually-hidden" }, "Add images"),
        ),
      ),
    ),
    allCaptions(state, actions),
  );
}

/** Export of the captions of all images. */
function allCaptions(state, actions) {
  const count = state.images.filter(entryCaption).length;
  const button = (label, title, action) =>
    h(
      "button",
      {
        type: "button",
        class: "button quiet",
        key: label,
        disabled: count === 0,
        "aria-label": title,
        title,
        on: { click: actions[action] },
      },
      label,
    );
  return h(
    "div",
    { class: "export-all", role: "group", "aria-label": "Captions of all images" },
    h("span", { class: "note" }, `${count} of ${state.images.length} captions`),
    button("Copy all", "Copy the captions of all images", "copyAll"),
    button("CSV", "Download the captions of all images as a table (CSV)", "saveAllCsv"),
    button("JSON", "Download the captions of all images with their regions (JSON)", "saveAllJson"),
  );
}

export function imageCards(state, actions) {
  if (state.images.length === 0) return null;
  return h(
    "section",
    { class: "own-images", key: "own", "aria-labelledby": "own-title" },
    h(
      "div",
      { class: "row" },
      h("h2", { id: "own-title" }, "Your images"),
      state.images.length > 1 && allCaptions(state, actions),
      state.images.length > 1 &&
        h("button", { type: "button", class: "button quiet", on: { click: actions.removeAll } }, "Remove all"),
    ),
    h(
      "ul",
      { class: "image-cards", role: "list" },
      state.images.map((entry) => imageCard(entry, actions)),
    ),
    h(
      "p",
      { class: "note" },
      state.storage === "failed"
        ? "This browser does not keep images: they are gone after a reload."
        : "Kept in this browser, also after a reload, until you remove them.",
    ),
  );
}

function imageCard(entry, actions) {
  const { image } = entry;
  const caption = entryCaption(entry);
  const isUnsure = caption?.chunks.some((chunk) => isDoubtful(chunk, entry.result.sets));
  return h(
    "li",
    { key: image.id, class: "image-card" },
    h(
      "button",
      { type: "button", class: "open-image", "data-ready": caption ? "" : null, on: { click: () => actions.show(image.id) } },
      h("img", { src: image.url, alt: "" }),
      h("span", { class: "file-name" }, image.name),
      h("span", { class: "text" }, entryStatus(entry)),
      isUnsure && h("span", { class: "doubt-note" }, "parts are doubtful"),
    ),
    h(
      "button",
      {
        type: "button",
        class: "tool",
        "aria-label": `Remove ${image.name}`,
        title: `Remove ${image.name}`,
        on: { click: () => actions.removeImage(image.id) },
      },
      icon("remove"),
    ),
  );
}
