// Control files: regions, names, words and options of an image as JSON, to be kept and opened again.

import { parseBox } from "./boxes.js";
import { makeSets } from "./control.js";
import { captionRequest, clampOption, emptyDocument, OPTIONS, parseWords } from "./document.js";

const MAX_SETS = 10;
const MAX_NAME_CHARACTERS = 100;

/** The content of a control file: the image's name and id, and the fields of a caption request. */
export function controlFile({ name, hash, width, height }, document) {
  const { n_best: _, ...request } = captionRequest(document);
  return { image: { name, id: hash, width, height }, ...request };
}

/** Parse a control file, or the JSON export of a caption: {image, document}; null if it is neither. */
export function parseControlFile(text) {
  const content = parseJson(text);
  const { width, height, id, name } = content?.image ?? {};
  if (!(width > 0 && height > 0) || typeof id !== "string" || !Array.isArray(content.control)) return null;
  const lists = content.control.slice(0, MAX_SETS).map((group) => (Array.isArray(group) ? group : []));
  const groups = lists
    .map((group, set) => group.map((box, index) => ({ box: parseBox(box, { width, height }), index, set })))
    .map((group) => group.filter(({ box }) => box))
    .filter((group) => group.length > 0);
  const names = "words" in content ? null : content.classes; // a caption has the detected names too
  const given = ({ set, index }) => parseName(names?.[set]?.[index]);
  const document = {
    ...emptyDocument(),
    sets: makeSets(
      groups.map((group) => group.map(({ box }) => box)),
      null,
      groups.map((group) => group.map(given)),
    ),
    ordered: content.ordered !== false,
    banned: parseWords([content.banned_words ?? []].flat().join(" ")),
    required: parseWords([content.required_words ?? []].flat().join(" ")),
  };
  for (const option of Object.keys(OPTIONS)) {
    if (option in content) document.options[option] = clampOption(option, content[option]);
  }
  return { image: { id, name: String(name ?? ""), width, height }, document };
}

const parseName = (name) => (typeof name === "string" ? name.trim().slice(0, MAX_NAME_CHARACTERS) || null : null);

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
