// Icons: 20 x 20 paths in the current colour.

import { h } from "./elements.js";

const PATHS = {
  undo: "M4 8h8a4 4 0 0 1 0 8H8M4 8l4-4M4 8l4 4",
  redo: "M16 8H8a4 4 0 0 0 0 8h4M16 8l-4-4M16 8l-4 4",
  box: "M3 6V3h3M14 3h3v3M17 14v3h-3M6 17H3v-3M10 7v6M7 10h6",
  merge: "M3 3h9v9H3zM8 8h9v9H8z",
  split: "M2.5 5h6v10h-6zM11.5 5h6v10h-6z",
  remove: "M5 5l10 10M15 5L5 15",
  bin: "M4 6h12M8 6V4h4v2M6 6l1 11h6l1-11",
  earlier: "M10 16V4M5 9l5-5 5 5",
  later: "M10 4v12M5 11l5 5 5-5",
  grip: "M7.5 4.5v.01M7.5 10v.01M7.5 15.5v.01M12.5 4.5v.01M12.5 10v.01M12.5 15.5v.01",
  copy: "M7 7h10v10H7zM4 13H3V3h10v1",
  link: "M8 12l4-4M9 5.5l1.5-1.5a3.9 3.9 0 0 1 5.5 5.5L14.5 11M11 14.5L9.5 16A3.9 3.9 0 0 1 4 10.5L5.5 9",
  save: "M10 3v9M6 8.5l4 4 4-4M3.5 16.5h13",
  sun: [
    "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7M10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18",
    "M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M15.7 4.3l-1.1 1.1M5.4 14.6l-1.1 1.1",
  ].join(""),
  moon: "M16 12.5A6.5 6.5 0 0 1 7.5 4a6.5 6.5 0 1 0 8.5 8.5z",
  auto: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
  image: "M3 4h14v12H3zM3 13l4-4 4 4 2-2 4 4M13 7.5v.01",
  keys: "M2.5 5.5h15v9h-15zM5.5 8.5v.01M8.5 8.5v.01M11.5 8.5v.01M14.5 8.5v.01M6.5 11.5h7",
  spark: "M10 3l1.7 5.3L17 10l-5.3 1.7L10 17l-1.7-5.3L3 10l5.3-1.7z",
  pen: "M4 16l1-4 8.5-8.5 3 3L8 15zM11.5 5.5l3 3",
  ban: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14M5 5l10 10",
  plus: "M10 4v12M4 10h12",
  eye: "M2 10s3-5 8-5 8 5 8 5-3 5-8 5-8-5-8-5zM10 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4",
};

export const icon = (name) =>
  h(
    "svg",
    { class: `icon icon-${name}`, viewBox: "0 0 20 20", "aria-hidden": "true", focusable: "false" },
    h("path", { d: PATHS[name] }),
  );

/** Button with an icon and a label; compact ones hide the label visually on small screens. */
export function iconButton(name, label, properties = {}, { compact = false } = {}) {
  return h(
    "button",
    { type: "button", class: `button${compact ? " compact" : ""}`, "aria-label": label, title: label, ...properties },
    icon(name),
    h("span", { class: "label" }, label),
  );
}
