// A link that brings a control back: boxes, order and options in the fragment, which no browser sends to a server.
//
// The picture itself is in it by name alone where it is a sample; otherwise by its hash, and the page asks for it.

import { boxOf } from "./boxes.js";
import { controlOf } from "./control.js";
import { emptyDocument, optionValue, OPTIONS } from "./document.js";

const MOST_SETS = 10;
const MOST_CHARACTERS = 20000;

export function fragmentOf(picture, { sets, ordered, options }) {
  const fields = new URLSearchParams();
  if (picture.sample) fields.set("sample", picture.sample);
  else {
    fields.set("picture", picture.hash);
    fields.set("name", picture.name);
  }
  fields.set("size", `${picture.width}x${picture.height}`);
  fields.set("regions", sets.map((set) => set.boxes.map(({ box }) => box.join(",")).join("+")).join(";"));
  fields.set("order", ordered ? "given" : "chosen");
  for (const [name, { value }] of Object.entries(OPTIONS)) {
    if (options[name] !== value) fields.set(name, Number(options[name]));
  }
  return fields.toString();
}

/** What a fragment asks for: {sample, hash, name, size, document}; null where it asks for nothing or is broken. */
export function readFragment(fragment) {
  if (fragment.length > MOST_CHARACTERS) return null;
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const sample = fields.get("sample");
  const hash = fields.get("picture");
  const size = sizeOf(fields.get("size"));
  if (!(sample || hash) || !size) return null;
  const document = { ...emptyDocument(), ordered: fields.get("order") !== "chosen" };
  for (const name of Object.keys(OPTIONS)) {
    if (fields.has(name)) document.options[name] = optionValue(name, Number(fields.get(name)));
  }
  const groups = [];
  for (const text of (fields.get("regions") ?? "").split(";").slice(0, MOST_SETS)) {
    const boxes = text
      .split("+")
      .map((box) => boxOf(box.split(",").map(numberOf), size))
      .filter(Boolean);
    if (boxes.length > 0) groups.push(boxes);
  }
  document.sets = controlOf(groups);
  return { sample, hash, name: fields.get("name") ?? "", size, document };
}

const numberOf = (text) => (text.trim() === "" ? NaN : Number(text));

function sizeOf(text) {
  const found = /^(\d{1,5})x(\d{1,5})$/.exec(text ?? "");
  return found ? { width: Number(found[1]), height: Number(found[2]) } : null;
}
