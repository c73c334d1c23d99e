// Crops and thumbnails of the image.

import { colorAt } from "../state/palette.js";
import { h } from "./elements.js";

const svgImage = ({ url, width, height }) =>
  h("image", { href: url, x: 0, y: 0, width, height, preserveAspectRatio: "none" });

/** Crop of a box. */
export function crop(image, [x1, y1, x2, y2]) {
  const viewBox = `${x1} ${y1} ${Math.max(x2 - x1, 1)} ${Math.max(y2 - y1, 1)}`;
  return h(
    "svg",
    { class: "crop", viewBox, preserveAspectRatio: "xMidYMid slice", "aria-hidden": "true" },
    svgImage(image),
  );
}

/** Thumbnail with the boxes of a control. */
export function thumbnail(image, sets) {
  const { width, height } = image;
  const boxes = sets.flatMap((set, position) =>
    set.boxes.map(({ box: [x1, y1, x2, y2] }) =>
      [
        ["halo", "white"],
        ["line", colorAt(position)],
      ].map(([kind, stroke]) => h("rect", { class: kind, x: x1, y: y1, width: x2 - x1, height: y2 - y1, stroke })),
    ),
  );
  return h(
    "svg",
    { class: "thumbnail", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    svgImage(image),
    boxes,
  );
}
