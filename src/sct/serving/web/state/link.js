// Shareable links: the document in the URL fragment, which browsers do not send to servers.
//
// A sample image is included by name, any other by its hash; the page then asks the user to open it.

import { parseBox } from "./boxes.js";
import { makeSets } from "./control.js";
import { clampOption, emptyDocument, OPTIONS } from "./document.js";

const MAX_SETS = 10;
const MAX_CHARACTERS = 20000;

export function encodeLink(image, { sets, ordered, options }) {
  const fields = new URLSearchParams();
  if (image.sample) fields.set("sample", image.sample);
  else {
    fields.set("image", image.hash);
    fields.set("name", image.name);
  }
  fields.set("size", `${image.width}x${image.height}`);
  fields.set("regions", sets.map((set) => set.boxes.map(({ box }) => box.join(",")).join("+")).join(";"));
  fields.set("order", ordered ? "given" : "chosen");
  for (const [name, { value }] of Object.entries(OPTIONS)) {
    if (options[name] !== value) fields.set(name, Number(options[name]));
  }
  return fields.toString();
}

/** Parse a fragment: {sample, hash, name, size, document}, or null if it is empty or malformed. */
export function decodeLink(fragment) {
  if (fragment.length > MAX_CHARACTERS) return null;
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const sample = fields.get("sample");
  const hash = fields.get("image");
  const size = parseSize(fields.get("size"));
  if (!(sample || hash) || !size) return null;
  const document = { ...emptyDocument(), ordered: fields.get("order") !== "chosen" };
  for (const name of Object.keys(OPTIONS)) {
    if (fields.has(name)) document.options[name] = clampOption(name, Number(fields.get(name)));
  }
  const groups = [];
  for (const text of (fields.get("regions") ?? "").split(";").slice(0, MAX_SETS)) {
    const boxes = text
      .split("+")
      .map((box) => parseBox(box.split(",").map(parseNumber), size))
      .filter(Boolean);
    if (boxes.length > 0) groups.push(boxes);
  }
  document.sets = makeSets(groups);
  return { sample, hash, name: fields.get("name") ?? "", size, document };
}

const parseNumber = (text) => (text.trim() === "" ? NaN : Number(text));

function parseSize(text) {
  const found = /^(\d{1,5})x(\d{1,5})$/.exec(text ?? "");
  return found ? { width: Number(found[1]), height: Number(found[2]) } : null;
}
