// Boxes: [x1, y1, x2, y2] in image pixels, clipped to the image and at least MIN_SIDE wide and high.

export const MIN_SIDE = 4;

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const roundToTenth = (value) => Math.round(value * 10) / 10;

/** Box between two opposite corners; null if it is smaller than MIN_SIDE. */
export function boxFromCorners([xA, yA], [xB, yB], image) {
  const box = clipBox([Math.min(xA, xB), Math.min(yA, yB), Math.max(xA, xB), Math.max(yA, yB)], image);
  return box[2] - box[0] < MIN_SIDE || box[3] - box[1] < MIN_SIDE ? null : box;
}

/** Clip a box to the image. */
export function clipBox([x1, y1, x2, y2], { width, height }) {
  return [clamp(x1, 0, width), clamp(y1, 0, height), clamp(x2, 0, width), clamp(y2, 0, height)].map(roundToTenth);
}

/** Translate a box, stopping at the image border. */
export function moveBox([x1, y1, x2, y2], dx, dy, { width, height }) {
  const right = clamp(dx, -x1, width - x2);
  const down = clamp(dy, -y1, height - y2);
  return [x1 + right, y1 + down, x2 + right, y2 + down].map(roundToTenth);
}

/** Move the sides named by a handle ("nw", "e", ...), keeping the minimum size. */
export function resizeBox([x1, y1, x2, y2], handle, dx, dy, { width, height }) {
  const minSide = Math.min(MIN_SIDE, width, height);
  return [
    handle.includes("w") ? clamp(x1 + dx, 0, x2 - minSide) : x1,
    handle.includes("n") ? clamp(y1 + dy, 0, y2 - minSide) : y1,
    handle.includes("e") ? clamp(x2 + dx, x1 + minSide, width) : x2,
    handle.includes("s") ? clamp(y2 + dy, y1 + minSide, height) : y2,
  ].map(roundToTenth);
}

export const area = ([x1, y1, x2, y2]) => (x2 - x1) * (y2 - y1);

export const containsPoint = ([x1, y1, x2, y2], [x, y]) => x1 <= x && x <= x2 && y1 <= y && y <= y2;

export function intersectionArea(one, other) {
  const width = Math.min(one[2], other[2]) - Math.max(one[0], other[0]);
  const height = Math.min(one[3], other[3]) - Math.max(one[1], other[1]);
  return Math.max(0, width) * Math.max(0, height);
}

export function boxIou(one, other) {
  const shared = intersectionArea(one, other);
  return shared ? shared / (area(one) + area(other) - shared) : 0;
}

/** A centered box, a third of the image's width and height. */
export function centerBox({ width, height }) {
  return clipBox([width / 3, height / 3, (2 * width) / 3, (2 * height) / 3], { width, height });
}

/** Box from four finite numbers, or null. */
export function parseBox(value, image) {
  if (!Array.isArray(value) || value.length !== 4 || !value.every(Number.isFinite)) return null;
  return boxFromCorners([value[0], value[1]], [value[2], value[3]], image);
}
