// A caption as text with coloured noun chunks.

import { textSpans } from "../state/captions.js";
import { colorAt } from "../state/palette.js";
import { h } from "./elements.js";

/** `positionOf` maps a region set of the caption to its position in the current control, -1 if removed. */
export function sentence(caption, positionOf) {
  return textSpans(caption).flatMap(({ set, words }, number) => {
    const text = words.map((word) => word.text).join(" ");
    const position = set === null ? null : positionOf(set);
    const part =
      set === null
        ? text
        : h("span", { class: "chunk-text", "data-position": position, css: { "--color": colorAt(position) } }, text);
    return number > 0 ? [" ", part] : [part];
  });
}
