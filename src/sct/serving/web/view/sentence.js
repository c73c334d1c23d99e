// A caption as a line to be read: chunks wear the colour of their region.

import { stretches } from "../state/captions.js";
import { colourOf } from "../state/palette.js";
import { h } from "./elements.js";

/** Words in stretches; `placeOf` tells where in today's control a region set of the caption is, -1 for nowhere. */
export function sentence(caption, placeOf) {
  return stretches(caption).flatMap(({ set, words }, number) => {
    const text = words.map((word) => word.text).join(" ");
    const place = set === null ? null : placeOf(set);
    const part =
      set === null
        ? text
        : h("span", { class: "said", "data-place": place, css: { "--colour": colourOf(place) } }, text);
    return number > 0 ? [" ", part] : [part];
  });
}
