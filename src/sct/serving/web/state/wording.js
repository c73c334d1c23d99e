// Numbers and places in words.

export const percent = (share) => `${Math.round(100 * share)}%`;

const ENDINGS = ["th", "st", "nd", "rd"];
const isTeen = (number) => number % 100 > 10 && number % 100 < 14;
export const ordinal = (number) => `${number}${(isTeen(number) ? "th" : ENDINGS[number % 10]) ?? "th"}`;

/** Where in its picture a box is, for who does not see it. */
export function whereabouts([x1, y1, x2, y2], { width, height }) {
  const [left, wide] = [x1, x2 - x1].map((side) => percent(side / width));
  const [top, high] = [y1, y2 - y1].map((side) => percent(side / height));
  return `left ${left}, top ${top}, ${wide} wide, ${high} high`;
}
