// Numbers and boxes as text.

export const percent = (fraction) => `${Math.round(100 * fraction)}%`;

const SUFFIXES = ["th", "st", "nd", "rd"];
const isTeen = (number) => number % 100 > 10 && number % 100 < 14;
export const ordinal = (number) => `${number}${(isTeen(number) ? "th" : SUFFIXES[number % 10]) ?? "th"}`;

/** Position and size of a box, for screen readers. */
export function describeBox([x1, y1, x2, y2], { width, height }) {
  const [left, wide] = [x1, x2 - x1].map((side) => percent(side / width));
  const [top, high] = [y1, y2 - y1].map((side) => percent(side / height));
  return `left ${left}, top ${top}, ${wide} wide, ${high} high`;
}
