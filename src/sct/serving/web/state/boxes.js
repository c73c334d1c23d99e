// Boxes: [x1, y1, x2, y2] in pixels of the picture, never outside it, never smaller than can be pointed at.

export const LEAST_SIDE = 4;

const clamped = (value, low, high) => Math.min(Math.max(value, low), high);
const rounded = (value) => Math.round(value * 10) / 10;

/** The box between two corners, whichever way round they came; null where it is too small to be meant. */
export function between([xA, yA], [xB, yB], picture) {
  const box = within([Math.min(xA, xB), Math.min(yA, yB), Math.max(xA, xB), Math.max(yA, yB)], picture);
  return box[2] - box[0] < LEAST_SIDE || box[3] - box[1] < LEAST_SIDE ? null : box;
}

/** Cut off at the edges of the picture. */
export function within([x1, y1, x2, y2], { width, height }) {
  return [clamped(x1, 0, width), clamped(y1, 0, height), clamped(x2, 0, width), clamped(y2, 0, height)].map(rounded);
}

/** Moved as far as the picture lets it; its size stays. */
export function moved([x1, y1, x2, y2], across, down, { width, height }) {
  const dx = clamped(across, -x1, width - x2);
  const dy = clamped(down, -y1, height - y2);
  return [x1 + dx, y1 + dy, x2 + dx, y2 + dy].map(rounded);
}

/** Sides named by a handle ("nw", "e", ...) follow the pointer; a box never turns inside out. */
export function resized([x1, y1, x2, y2], handle, across, down, { width, height }) {
  const least = Math.min(LEAST_SIDE, width, height);
  return [
    handle.includes("w") ? clamped(x1 + across, 0, x2 - least) : x1,
    handle.includes("n") ? clamped(y1 + down, 0, y2 - least) : y1,
    handle.includes("e") ? clamped(x2 + across, x1 + least, width) : x2,
    handle.includes("s") ? clamped(y2 + down, y1 + least, height) : y2,
  ].map(rounded);
}

export const area = ([x1, y1, x2, y2]) => (x2 - x1) * (y2 - y1);

export function overlap(one, other) {
  const width = Math.min(one[2], other[2]) - Math.max(one[0], other[0]);
  const height = Math.min(one[3], other[3]) - Math.max(one[1], other[1]);
  const shared = Math.max(0, width) * Math.max(0, height);
  return shared ? shared / (area(one) + area(other) - shared) : 0;
}

/** Where a person without a pointer starts: a third of the picture, in its middle. */
export function middle({ width, height }) {
  return within([width / 3, height / 3, (2 * width) / 3, (2 * height) / 3], { width, height });
}

/** Four finite numbers that make a box of this picture, or null. */
export function boxOf(value, picture) {
  if (!Array.isArray(value) || value.length !== 4 || !value.every(Number.isFinite)) return null;
  return between([value[0], value[1]], [value[2], value[3]], picture);
}
