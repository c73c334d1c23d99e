// User actions with effects beyond the state: opening images, requests, copying, downloads.

import { indexOfSet, makeSets } from "../state/control.js";
import { captionRequest, requestKey } from "../state/document.js";
import { decodeLink, encodeLink } from "../state/link.js";
import { currentDocument, selectedCaption, unusedProposals } from "../state/state.js";
import { canvasMeasure, captionSvg } from "./drawing.js";
import { imageFile, openImage, openSample, SAMPLES } from "./images.js";
import { copyText, fileName, saveFile, toDataUrl, toPng } from "./export.js";

const LIMITS = { image_bytes: 10 * 2 ** 20, megapixels: 40 }; // until /v1/health has answered
const NUM_ALTERNATIVES = 6;

export function createActions({ dispatch, getState, api, requestCaption, schedule }) {
  const limits = () => ({ ...LIMITS, ...getState().server?.limits });
  const announce = (text, shown = false) => dispatch({ type: "announced", text, shown });

  /** Wrap an async action so that its error is shown on the page. */
  const reportingErrors =
    (callback) =>
    async (...inputs) => {
      try {
        return await callback(...inputs);
      } catch (error) {
        dispatch({ type: "errorShown", error: error.message });
        return null;
      }
    };

  async function show(image, document = null) {
    const before = getState().image;
    if (before) URL.revokeObjectURL(before.url);
    dispatch({ type: "imageOpened", image, document });
    if (!document) dispatch({ type: "focusRequested", name: "new-box" }); // the focused element is gone
    const isShown = () => getState().image?.url === image.url; // another image may have been opened meanwhile
    let found;
    try {
      found = await api.detect(image);
    } catch (error) {
      if (isShown()) dispatch({ type: "detectFailed", error: error.message });
      return;
    }
    if (!isShown()) return;
    const proposals = found.regions.map(({ box, class: name, score }) => ({
      box,
      name: name ?? null,
      score: score ?? null,
    }));
    dispatch({ type: "detected", hash: found.image.id, proposals });
  }

  const openFile = reportingErrors(async (file) => {
    if (file) await show(await openImage(file, { name: file.name || "pasted image", limits: limits() }));
  });

  const showSample = reportingErrors(async (sample, document = null) =>
    show(await openSample(sample, limits()), document),
  );

  /** Restore the document of the URL fragment. */
  function openLink() {
    const link = decodeLink(location.hash);
    if (!link) return;
    const sample = SAMPLES.find(({ name }) => name === link.sample);
    if (sample) showSample(sample, link.document);
    else if (link.hash)
      dispatch({ type: "linkOpened", pendingLink: { hash: link.hash, name: link.name, document: link.document } });
  }

  const actions = {
    dispatch,
    openFile,
    openSample: (sample) => showSample(sample),

    async start() {
      openLink();
      try {
        dispatch({ type: "healthReceived", server: await api.health() });
      } catch (error) {
        announce(error.message, true);
      }
    },

    close() {
      const { image } = getState();
      if (image) URL.revokeObjectURL(image.url);
      dispatch({ type: "imageClosed" });
      dispatch({ type: "focusRequested", name: "file" });
    },

    highlight: (highlight) => dispatch({ type: "highlighted", highlight }),
    announceSoon: (text) => schedule("where", 400, () => announce(text)),

    theme(theme) {
      localStorage.setItem("theme", theme);
      dispatch({ type: "themeSet", theme });
    },

    showKeys: () => document.getElementById("keys").showModal(),

    newBox(byKey) {
      if (byKey) dispatch({ type: "centerBoxAdded" });
      else dispatch({ type: "modeSet", mode: getState().mode === "draw" ? "point" : "draw" });
    },

    addProposal(number) {
      const before = unusedProposals(getState());
      const position = before.findIndex((each) => each.number === number);
      if (position < 0) return;
      const hadFocus = document.activeElement?.dataset.focus === `proposal:${number}`;
      dispatch({ type: "boxAdded", box: before[position].box, name: before[position].name });
      if (!hadFocus) return;
      const next = unusedProposals(getState());
      dispatch({
        type: "focusRequested",
        name: next.length ? `proposal:${next[Math.min(position, next.length - 1)].number}` : "new-box",
      });
    },

    /** Select a region, or merge it into the selected one in merge mode. */
    chooseSet(set) {
      const { mode, selected } = getState();
      const { sets } = currentDocument(getState());
      if (mode === "merge" && selected !== set && indexOfSet(sets, selected) >= 0)
        dispatch({ type: "setsMerged", into: selected, from: set });
      else dispatch({ type: "setSelected", set });
    },

    setMerging(isMerging) {
      const position = indexOfSet(currentDocument(getState()).sets, getState().selected);
      dispatch({
        type: "modeSet",
        mode: isMerging ? "merge" : "point",
        message: isMerging
          ? `Choose the region to merge into region ${position + 1}, or press Escape`
          : "Merge cancelled",
      });
    },

    selectRegions: reportingErrors(async () => {
      const { image } = getState();
      const request = { ...captionRequest(currentDocument(getState())), control: null, n_best: 1, ordered: true };
      const {
        captions: [caption],
      } = await api.caption(image, request);
      if (!caption || getState().image?.url !== image.url) return;
      const inOrder = caption.order?.sets ?? caption.control.map((_, number) => number);
      const pick = (values) => inOrder.map((number) => values[number]);
      dispatch({
        type: "documentReplaced",
        sets: makeSets(pick(caption.control), pick(caption.classes)),
        label: "regions selected by the captioner",
      });
    }),

    async requestAlternatives() {
      const document = currentDocument(getState());
      const { n_best: _, ...request } = captionRequest(document);
      const key = requestKey(document);
      dispatch({ type: "alternativesRequested", key, sets: document.sets });
      try {
        const { captions } = await api.alternatives(getState().image, { ...request, limit: NUM_ALTERNATIVES });
        dispatch({ type: "alternativesReceived", key, captions });
      } catch (error) {
        dispatch({ type: "alternativesFailed", key, error: error.message });
      }
    },

    applyAlternative(caption) {
      const { sets } = getState().alternatives;
      dispatch({
        type: "documentReplaced",
        sets: caption.order.sets.map((number) => sets[number]),
        label: "alternative caption",
      });
    },

    restore: ({ document }) => dispatch({ type: "documentReplaced", ...document, label: "restored from history" }),
    retry: () => requestCaption(),

    copyText: reportingErrors(async () => {
      await copyText(selectedCaption(getState()).text);
      announce("Text copied", true);
    }),
    copyLink: reportingErrors(async () => {
      const { image } = getState();
      await copyText(`${location.href.split("#")[0]}#${encodeLink(image, currentDocument(getState()))}`);
      announce(image.sample ? "Link copied" : "Link copied; it does not include the image", true);
    }),
    saveJson: reportingErrors(async () => {
      const { image } = getState();
      const content = {
        image: { name: image.name, id: image.hash, width: image.width, height: image.height },
        ...selectedCaption(getState()),
      };
      saveFile(new Blob([JSON.stringify(content, null, 2)], { type: "application/json" }), fileName(image, "json"));
    }),
    saveSvg: reportingErrors(async () => {
      const { svg } = await renderDrawing();
      saveFile(new Blob([svg], { type: "image/svg+xml" }), fileName(getState().image, "svg"));
    }),
    savePng: reportingErrors(async () => {
      const sheet = await renderDrawing();
      saveFile(await toPng(sheet.svg, sheet), fileName(getState().image, "png"));
    }),

    listen() {
      window.addEventListener("keydown", onKeyDown);
      window.addEventListener("hashchange", openLink);
      window.addEventListener("paste", (event) => {
        const file = imageFile(event.clipboardData);
        if (file) openFile(file);
      });
      const over = (isOver) => document.documentElement.toggleAttribute("data-dropping", isOver);
      window.addEventListener("dragover", (event) => {
        event.preventDefault();
        over(true);
      });
      window.addEventListener("dragleave", (event) => event.relatedTarget === null && over(false));
      window.addEventListener("drop", (event) => {
        event.preventDefault();
        over(false);
        const file = imageFile(event.dataTransfer);
        if (file) openFile(file);
        else announce("Only files can be dropped here: save the image first, or paste it", true);
      });
    },
  };

  function onKeyDown(event) {
    const { mode, lifted } = getState();
    if (event.key === "Escape" && (mode !== "point" || lifted !== null)) dispatch({ type: "cancelled" });
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    dispatch({ type: key === "y" || event.shiftKey ? "redone" : "undone" });
  }

  async function renderDrawing() {
    const { image } = getState();
    return captionSvg(image, await toDataUrl(image.blob), selectedCaption(getState()), canvasMeasure());
  }

  return actions;
}
