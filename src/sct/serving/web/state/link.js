// Shareable links to sample images: the document in the URL fragment, which browsers do not send to servers.
//
// An image of the user is in no link, as it is on no server: its regions go to a file instead (control_file.js).

import { parseBox } from "./boxes.js";
import { makeSets } from "./control.js";
import { clampOption, emptyDocument, OPTIONS, parseWords } from "./document.js";

const MAX_SETS = 10;
const MAX_CHARACTERS = 20000;
const MAX_NAME_CHARACTERS = 100;

export function encodeLink(image, { sets, ordered, options, banned, required }) {
  const fields = new URLSearchParams();
  fields.set("sample", image.sample);
  fields.set("size", `${image.width}x${image.height}`);
  const join = (encode) => sets.map((set) => set.boxes.map(encode).join("+")).join(";");
  fields.set(
    "regions",
    join(({ box }) => box.join(",")),
  );
  if (sets.some((set) => set.boxes.some(({ given }) => given)))
    fields.set(
      "names",
      join(({ given }) => encodeURIComponent(given ?? "")),
    );
  if (banned.length > 0) fields.set("banned", banned.join(","));
  if (required.length > 0) fields.set("required", required.join(","));
  fields.set("order", ordered ? "given" : "chosen");
  for (const [name, { value }] of Object.entries(OPTIONS)) {
    if (options[name] !== value) fields.set(name, Number(options[name]));
  }
  return fields.toString();
}

/** Parse a fragment: {sample, size, document}, or null if it is empty or malformed. */
export function decodeLink(fragment) {
  if (fragment.length > MAX_CHARACTERS) return null;
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const sample = fields.get("sample");
  const size = parseSize(fields.get("size"));
  if (!sample || !size) return null;
  const document = {
    ...emptyDocument(),
    ordered: fields.get("order") !== "chosen",
    banned: parseWords(fields.get("banned") ?? ""),
    required: parseWords(fields.get("required") ?? ""),
  };
  for (const name of Object.keys(OPTIONS)) {
    if (fields.has(name)) document.options[name] = clampOption(name, Number(fields.get(name)));
  }
  const boxes = parseGroups(fields.get("regions"), (text) => parseBox(text.split(",").map(parseNumber), size));
  const names = parseGroups(fields.get("names"), parseName);
  const groups = boxes.map((group, set) => group.map((box, index) => ({ box, given: names[set]?.[index] ?? null })));
  const valid = groups.map((group) => group.filter(({ box }) => box)).filter((group) => group.length > 0);
  document.sets = makeSets(
    valid.map((group) => group.map(({ box }) => box)),
    null,
    valid.map((group) => group.map(({ given }) => given)),
  );
  return { sample, size, document };
}

const parseGroups = (text, parse) =>
  (text ?? "")
    .split(";")
    .slice(0, MAX_SETS)
    .map((group) => group.split("+").map(parse));

const parseNumber = (text) => (text.trim() === "" ? NaN : Number(text));

function parseName(text) {
  try {
    return decodeURIComponent(text).trim().slice(0, MAX_NAME_CHARACTERS) || null;
  } catch {
    return null; // a malformed escape
  }
}

function parseSize(text) {
  const found = /^(\d{1,5})x(\d{1,5})$/.exec(text ?? "");
  return found ? { width: Number(found[1]), height: Number(found[2]) } : null;
}
