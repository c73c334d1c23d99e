// Proposals: near-duplicates, and the region meant by a click.

import { area, boxIou, clipBox, containsPoint, intersectionArea } from "./boxes.js";

const MAX_IOU = 0.5; // of boxes of different classes
const MAX_SAME_CLASS_IOU = 0.25;
const CONTAINED = 0.8; // fraction of the smaller box that lies in the larger one
const MIN_AREA_RATIO = 0.5; // smaller boxes inside another one are parts of it, not duplicates
const MIN_SAME_CLASS_AREA_RATIO = 0.2;
const POINT_BOX_SIDE = 0.3; // fraction of the shorter side of the image

function isDuplicate(one, other) {
  const isSameClass = one.name !== null && one.name === other.name;
  if (boxIou(one.box, other.box) > (isSameClass ? MAX_SAME_CLASS_IOU : MAX_IOU)) return true;
  const [smaller, larger] = [area(one.box), area(other.box)].sort((a, b) => a - b);
  return (
    intersectionArea(one.box, other.box) > CONTAINED * smaller &&
    smaller > (isSameClass ? MIN_SAME_CLASS_AREA_RATIO : MIN_AREA_RATIO) * larger
  );
}

/** Keep the first, highest-scored proposal of each group of near-duplicates. */
export function suppressDuplicates(proposals) {
  return proposals.reduce((kept, each) => (kept.some((other) => isDuplicate(each, other)) ? kept : [...kept, each]), []);
}

/** How likely a click at a point means a region: small, confident and centered regions first; 0 outside its box. */
export function clickWeight({ box, score }, [x, y], { width, height }) {
  if (!containsPoint(box, [x, y])) return 0;
  const [x1, y1, x2, y2] = box;
  const dx = (2 * x - x1 - x2) / (x2 - x1);
  const dy = (2 * y - y1 - y2) / (y2 - y1);
  return ((score ?? 1) * Math.exp(-dx * dx - dy * dy)) / Math.cbrt(area(box) / (width * height));
}

/** Regions under a point, most likely meant first. */
export function rankAt(regions, point, image) {
  return regions
    .map((region) => ({ region, weight: clickWeight(region, point, image) }))
    .filter(({ weight }) => weight > 0)
    .sort((one, other) => other.weight - one.weight)
    .map(({ region }) => region);
}

/** Box around a point where nothing was proposed; inside the image. */
export function pointBox([x, y], image) {
  const side = POINT_BOX_SIDE * Math.min(image.width, image.height);
  const left = Math.min(Math.max(x - side / 2, 0), image.width - side);
  const top = Math.min(Math.max(y - side / 2, 0), image.height - side);
  return clipBox([left, top, left + side, top + side], image);
}
