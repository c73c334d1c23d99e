// A part of the picture, cut out; the whole picture with boxes on it.

import { colourOf } from "../state/palette.js";
import { h } from "./elements.js";

const image = ({ url, width, height }) =>
  h("image", { href: url, x: 0, y: 0, width, height, preserveAspectRatio: "none" });

/** What a box shows, filling a small frame. */
export function crop(picture, [x1, y1, x2, y2]) {
  const viewBox = `${x1} ${y1} ${Math.max(x2 - x1, 1)} ${Math.max(y2 - y1, 1)}`;
  return h(
    "svg",
    { class: "crop", viewBox, preserveAspectRatio: "xMidYMid slice", "aria-hidden": "true" },
    image(picture),
  );
}

/** The picture as small as a stamp, with the boxes of a control. */
export function stamp(picture, sets) {
  const { width, height } = picture;
  const boxes = sets.flatMap((set, place) =>
    set.boxes.map(({ box: [x1, y1, x2, y2] }) =>
      [
        ["halo", "white"],
        ["line", colourOf(place)],
      ].map(([kind, stroke]) => h("rect", { class: kind, x: x1, y: y1, width: x2 - x1, height: y2 - y1, stroke })),
    ),
  );
  return h("svg", { class: "stamp", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, image(picture), boxes);
}
