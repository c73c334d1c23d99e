// The drawing that can be kept: the picture with its boxes, and under it the caption in their colours.
//
// It looks as that of `sct caption --draw` does: lines between white and dark ones, chunks white on their colour.

import { stretches } from "../state/captions.js";
import { colourOf } from "../state/palette.js";

const LONG_SIDE = 720;
const LEAST_WIDTH = 420;
const MARGIN = 16;
const PADDING = 6;
const LINE = 32;
const FONT = 20;
const SMALL = 13;
const FAMILY = "'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

/** {svg, width, height}: `image` is the picture's data address, `measure(text, size)` tells how wide a text is. */
export function drawing(picture, image, caption, measure) {
  const scale = LONG_SIDE / Math.max(picture.width, picture.height);
  const [wide, high] = [picture.width * scale, picture.height * scale].map(Math.round);
  const width = Math.max(wide, LEAST_WIDTH);
  const left = (width - wide) / 2;
  const { runs, bottom } = laidOut(caption, width, measure);
  const height = Math.round(high + bottom);
  const svg = element(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" },
    [
      element("title", {}, [escaped(caption.text)]),
      element("rect", { width, height, fill: "white" }),
      element("rect", { width, height: high, fill: "rgb(236, 236, 236)" }),
      element("image", { href: image, x: left, width: wide, height: high, preserveAspectRatio: "none" }),
      element("g", { transform: `translate(${left} 0)`, fill: "none" }, boxes(caption, scale)),
      element("g", { transform: `translate(0 ${high})`, "font-family": FAMILY, "font-size": FONT }, runs.flatMap(run)),
    ],
  );
  return { svg, width, height };
}

function boxes(caption, scale) {
  const marks = caption.control
    .flatMap((set, place) => set.map((box) => ({ place, box: box.map((side) => side * scale) })))
    .sort((one, other) => size(other.box) - size(one.box));
  return [...marks.map(outline), ...marks.map(tag)];
}

const size = ([x1, y1, x2, y2]) => (x2 - x1) * (y2 - y1);

function outline({ place, box: [x1, y1, x2, y2] }) {
  const shape = { x: x1 + 2, y: y1 + 2, width: Math.max(x2 - x1 - 4, 1), height: Math.max(y2 - y1 - 4, 1), rx: 2 };
  return [
    ["rgb(30, 30, 30)", 8, 0.55],
    ["white", 6, 1],
    [colourOf(place), 3, 1],
  ]
    .map(([stroke, width, opacity]) =>
      element("rect", { ...shape, stroke, "stroke-width": width, "stroke-opacity": opacity }),
    )
    .join("");
}

function tag({ place, box: [x1, y1] }) {
  const [x, y] = [Math.max(x1 - 8, 3), Math.max(y1 - 8, 3)];
  return (
    element("rect", {
      x,
      y,
      width: 20,
      height: 20,
      rx: 5,
      fill: colourOf(place),
      stroke: "white",
      "stroke-width": 1.5,
    }) +
    element(
      "text",
      { x: x + 10, y: y + 15, fill: "white", "font-family": FAMILY, "font-size": 14, "text-anchor": "middle" },
      [place + 1],
    )
  );
}

/** Words in runs that each stand on one line and share a colour. */
function laidOut(caption, width, measure) {
  const runs = [];
  const space = measure(" ", FONT);
  let [x, y] = [MARGIN, MARGIN];
  for (const { set, words } of stretches(caption)) {
    let current = null;
    for (const { text } of words) {
      const number = set !== null && current === null ? `${set + 1}` : "";
      const lead = set === null ? 0 : current ? 0 : 2 * PADDING + (number ? measure(number, SMALL) + 5 : 0);
      const gap = current ? space : 0;
      const needed = lead + gap + measure(text, FONT);
      if (x + needed > width - MARGIN && x > MARGIN) {
        [x, y] = [MARGIN, y + LINE];
        current = null;
      }
      if (current) {
        current.text += ` ${text}`;
        current.width += gap + measure(text, FONT);
      } else {
        const tagged = set !== null && !runs.some((each) => each.words === words) ? `${set + 1}` : "";
        const before = set === null ? 0 : PADDING + (tagged ? measure(tagged, SMALL) + 5 : 0);
        current = {
          words,
          set,
          x,
          y,
          text,
          number: tagged,
          before,
          width: before + measure(text, FONT) + (set === null ? 0 : PADDING),
        };
        runs.push(current);
      }
      x = current.x + current.width;
    }
    x += space;
  }
  return { runs, bottom: y + LINE + MARGIN - 4 };
}

function run({ set, x, y, text, number, before, width }) {
  const parts = [];
  if (set !== null) parts.push(element("rect", { x, y, width, height: LINE - 4, rx: 6, fill: colourOf(set) }));
  if (number)
    parts.push(
      element("text", { x: x + PADDING, y: y + 20, "font-size": SMALL, fill: "white", "fill-opacity": 0.85 }, [number]),
    );
  parts.push(
    element("text", { x: x + before, y: y + 21, fill: set === null ? "rgb(30, 30, 30)" : "white" }, [escaped(text)]),
  );
  return parts;
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };
const escaped = (text) => String(text).replace(/[&<>"']/g, (sign) => ENTITIES[sign]);

function element(name, attributes, content = []) {
  const written = Object.entries(attributes)
    .map(([key, value]) => ` ${key}="${escaped(value)}"`)
    .join("");
  return `<${name}${written}>${content.flat().join("")}</${name}>`;
}

/** How wide texts are in this browser, in the font of drawings. */
export function browserMeasure() {
  const pen = document.createElement("canvas").getContext("2d");
  return (text, pixels) => {
    pen.font = `${pixels}px ${FAMILY}`;
    return pen.measureText(text).width;
  };
}
