// User actions that copy or download: captions, drawings, links, controls.

import { controlFile } from "../state/control_file.js";
import { entryCaption } from "../state/images.js";
import { encodeLink } from "../state/link.js";
import { currentDocument, selectedCaption } from "../state/state.js";
import { canvasMeasure, captionSvg } from "./drawing.js";
import { copyText, fileName, saveFile, toDataUrl, toPng } from "./export.js";

const asJson = (content) => new Blob([JSON.stringify(content, null, 2)], { type: "application/json" });
const imageFields = ({ name, hash, width, height }) => ({ name, id: hash, width, height });
const csvField = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

export function createExportActions({ getState, announce, reportingErrors }) {
  async function renderDrawing() {
    const { image } = getState();
    return captionSvg(image, await toDataUrl(image.blob), selectedCaption(getState()), canvasMeasure());
  }

  const allCaptions = () =>
    getState().images.flatMap((entry) => {
      const caption = entryCaption(entry);
      return caption ? [{ image: imageFields(entry.image), ...caption }] : [];
    });

  return {
    copyText: reportingErrors(async () => {
      await copyText(selectedCaption(getState()).text);
      announce("Text copied", true);
    }),
    copyLink: reportingErrors(async () => {
      const { image } = getState();
      await copyText(`${location.href.split("#")[0]}#${encodeLink(image, currentDocument(getState()))}`);
      announce("Link copied", true);
    }),
    saveControl: reportingErrors(async () => {
      const { image } = getState();
      saveFile(asJson(controlFile(image, currentDocument(getState()))), fileName(image, "json", "regions"));
      announce("Regions saved. Open the file here again, with the same image", true);
    }),
    saveJson: reportingErrors(async () => {
      const { image } = getState();
      saveFile(asJson({ image: imageFields(image), ...selectedCaption(getState()) }), fileName(image, "json"));
    }),
    saveSvg: reportingErrors(async () => {
      const { svg } = await renderDrawing();
      saveFile(new Blob([svg], { type: "image/svg+xml" }), fileName(getState().image, "svg"));
    }),
    savePng: reportingErrors(async () => {
      const sheet = await renderDrawing();
      saveFile(await toPng(sheet.svg, sheet), fileName(getState().image, "png"));
    }),
    copyAll: reportingErrors(async () => {
      const captions = allCaptions();
      await copyText(captions.map(({ image, text }) => `${image.name}\t${text}`).join("\n"));
      announce(`${captions.length} captions copied`, true);
    }),
    saveAllCsv: () => {
      const rows = allCaptions().map(({ image, text }) => [image.name, text].map(csvField).join(","));
      saveFile(new Blob([["image,caption", ...rows, ""].join("\r\n")], { type: "text/csv" }), "captions.csv");
    },
    saveAllJson: () => saveFile(asJson(allCaptions()), "captions.json"),
  };
}
