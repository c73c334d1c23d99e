// Colours of region sets: those of sct.drawing.palette, by a set's place in the control (a test holds them together).

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
export const UNASSOCIATED = [112, 112, 112];

const css = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;

/** The colour of a region set by its place in the control; grey where it is no longer there. */
export const colourOf = (place) => css(place < 0 ? UNASSOCIATED : PALETTE[place % PALETTE.length]);
