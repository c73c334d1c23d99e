// SVG export: the image with the control's boxes, and the caption below with coloured noun chunks.
//
// Same style as `sct caption --draw`.

import { textSpans } from "../state/captions.js";
import { colorAt } from "../state/palette.js";

const LONG_SIDE = 720;
const MIN_WIDTH = 420;
const MARGIN = 16;
const PADDING = 6;
const LINE = 32;
const FONT = 20;
const SMALL = 13;
const FAMILY = "'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

/** {svg, width, height}; `measure(text, fontSize)` returns the width of a text in pixels. */
export function captionSvg(image, dataUrl, caption, measure) {
  const scale = LONG_SIDE / Math.max(image.width, image.height);
  const [imageWidth, imageHeight] = [image.width * scale, image.height * scale].map(Math.round);
  const width = Math.max(imageWidth, MIN_WIDTH);
  const left = (width - imageWidth) / 2;
  const { runs, bottom } = layOutText(caption, width, measure);
  const height = Math.round(imageHeight + bottom);
  const svg = element(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" },
    [
      element("title", {}, [escapeXml(caption.text)]),
      element("rect", { width, height, fill: "white" }),
      element("rect", { width, height: imageHeight, fill: "rgb(236, 236, 236)" }),
      element("image", { href: dataUrl, x: left, width: imageWidth, height: imageHeight, preserveAspectRatio: "none" }),
      element("g", { transform: `translate(${left} 0)`, fill: "none" }, boxes(caption, scale)),
      element(
        "g",
        { transform: `translate(0 ${imageHeight})`, "font-family": FAMILY, "font-size": FONT },
        runs.flatMap(textRun),
      ),
    ],
  );
  return { svg, width, height };
}

function boxes(caption, scale) {
  const marks = caption.control
    .flatMap((set, position) => set.map((box) => ({ position, box: box.map((side) => side * scale) })))
    .sort((one, other) => size(other.box) - size(one.box));
  return [...marks.map(boxOutline), ...marks.map(tag)];
}

const size = ([x1, y1, x2, y2]) => (x2 - x1) * (y2 - y1);

function boxOutline({ position, box: [x1, y1, x2, y2] }) {
  const shape = { x: x1 + 2, y: y1 + 2, width: Math.max(x2 - x1 - 4, 1), height: Math.max(y2 - y1 - 4, 1), rx: 2 };
  return [
    ["rgb(30, 30, 30)", 8, 0.55],
    ["white", 6, 1],
    [colorAt(position), 3, 1],
  ]
    .map(([stroke, width, opacity]) =>
      element("rect", { ...shape, stroke, "stroke-width": width, "stroke-opacity": opacity }),
    )
    .join("");
}

function tag({ position, box: [x1, y1] }) {
  const [x, y] = [Math.max(x1 - 8, 3), Math.max(y1 - 8, 3)];
  return (
    element("rect", {
      x,
      y,
      width: 20,
      height: 20,
      rx: 5,
      fill: colorAt(position),
      stroke: "white",
      "stroke-width": 1.5,
    }) +
    element(
      "text",
      { x: x + 10, y: y + 15, fill: "white", "font-family": FAMILY, "font-size": 14, "text-anchor": "middle" },
      [position + 1],
    )
  );
}

/** Break the caption into runs of one line and one colour. */
function layOutText(caption, width, measure) {
  const runs = [];
  const space = measure(" ", FONT);
  let [x, y] = [MARGIN, MARGIN];
  for (const { set, words } of textSpans(caption)) {
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

function textRun({ set, x, y, text, number, before, width }) {
  const parts = [];
  if (set !== null) parts.push(element("rect", { x, y, width, height: LINE - 4, rx: 6, fill: colorAt(set) }));
  if (number)
    parts.push(
      element("text", { x: x + PADDING, y: y + 20, "font-size": SMALL, fill: "white", "fill-opacity": 0.85 }, [number]),
    );
  parts.push(
    element("text", { x: x + before, y: y + 21, fill: set === null ? "rgb(30, 30, 30)" : "white" }, [escapeXml(text)]),
  );
  return parts;
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };
const escapeXml = (text) => String(text).replace(/[&<>"']/g, (sign) => ENTITIES[sign]);

function element(name, attributes, content = []) {
  const written = Object.entries(attributes)
    .map(([key, value]) => ` ${key}="${escapeXml(value)}"`)
    .join("");
  return `<${name}${written}>${content.flat().join("")}</${name}>`;
}

/** Text measurement with a canvas. */
export function canvasMeasure() {
  const pen = document.createElement("canvas").getContext("2d");
  return (text, pixels) => {
    pen.font = `${pixels}px ${FAMILY}`;
    return pen.measureText(text).width;
  };
}
