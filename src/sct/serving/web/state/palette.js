// Colours of region sets by position in the control; the same as in sct.drawing.palette (tested).

export const PALETTE = [
  [208, 32, 38],
  [24, 108, 190],
  [28, 128, 44],
  [186, 88, 0],
  [136, 78, 180],
  [0, 122, 134],
  [206, 36, 130],
  [122, 82, 60],
  [112, 112, 0],
  [64, 60, 200],
];
export const UNGROUNDED = [112, 112, 112];

const css = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;

/** CSS colour of the region set at a position; grey for -1, a removed set. */
export const colorAt = (position) => css(position < 0 ? UNGROUNDED : PALETTE[position % PALETTE.length]);
