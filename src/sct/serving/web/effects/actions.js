// User actions with effects beyond the state: opening and removing images, requests.

import { indexOfSet } from "../state/control.js";
import { parseControlFile } from "../state/control_file.js";
import { captionRequest, requestKey } from "../state/document.js";
import { findEntry } from "../state/images.js";
import { decodeLink, encodeLink } from "../state/link.js";
import { currentDocument, unusedProposals } from "../state/state.js";
import { createExportActions } from "./export_actions.js";
import { suggestSets } from "./image_queue.js";
import { filesOf, openImage, openSample, SAMPLES } from "./images.js";
import { createNavigation } from "./navigation.js";

const LIMITS = { image_bytes: 10 * 2 ** 20, megapixels: 40 }; // until /v1/health has answered
const NUM_ALTERNATIVES = 6;

export function createActions({ dispatch, getState, api, queue, storage, requestCaption, schedule }) {
  const limits = () => ({ ...LIMITS, ...getState().server?.limits });
  const announce = (text, shown = false) => dispatch({ type: "announced", text, shown });
  const requestFocus = (name) => dispatch({ type: "focusRequested", name });

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

  const navigation = createNavigation({ getState, onNavigate: navigate, onLink: reportingErrors(openLink) });

  /** Show an image of the list, or the start screen (null), without a new history entry. */
  function navigate(id) {
    if (id !== null && findEntry(getState(), id)) {
      dispatch({ type: "imageShown", show: id });
      queue.prepare(id);
      requestFocus("new-box"); // the focused element is gone
    } else {
      dispatch({ type: "startShown" });
      requestFocus("file");
    }
    queue.prepareAll(); // an image that was left may wait for its caption
  }

  function show(id) {
    navigate(id);
    navigation.push();
  }

  const openImages = (images) => {
    dispatch({ type: "imagesAdded", images });
    show(images[0].id);
  };

  /** Open image files and control files; those that cannot be read are named. */
  const openFiles = reportingErrors(async (files) => {
    const [images, errors] = [[], []];
    for (const file of files) {
      try {
        if (file.type === "application/json") openControl(await file.text(), file.name);
        else images.push(await openImage(file, { name: file.name || "pasted image", limits: limits() }));
      } catch (error) {
        errors.push(error.message);
      }
    }
    if (images.length > 0) openImages(images);
    if (errors.length > 0) throw new Error(errors.join(" "));
  });

  /** Open a control file: on its image if that is in the list, else once it is opened. */
  function openControl(text, name) {
    const control = parseControlFile(text);
    if (!control) throw new Error(`${name} has no regions: open a file saved by “Save regions”.`);
    const entry = getState().images.find(({ image }) => image.hash === control.image.id);
    if (!entry) {
      dispatch({ type: "controlPending", pendingControl: control });
      navigation.push();
      return;
    }
    if (getState().image?.id !== entry.image.id) show(entry.image.id);
    dispatch({ type: "documentReplaced", document: control.document, label: "saved regions opened" });
  }

  /** Restore the document of the URL fragment; this is no new history entry. */
  async function openLink() {
    const link = decodeLink(location.hash);
    const sample = link && SAMPLES.find(({ name }) => name === link.sample);
    if (!sample) return;
    const same = getState().images.find(
      ({ image, timeline }) =>
        image.sample === sample.name && encodeLink(image, timeline.present.document) === location.hash.slice(1),
    );
    if (same) return navigate(same.image.id);
    const image = await openSample(sample, limits());
    dispatch({ type: "imagesAdded", images: [image], document: link.document });
    navigate(image.id);
    navigation.replace();
  }

  const actions = {
    dispatch,
    openFiles,
    openSample: reportingErrors(async (sample) => openImages([await openSample(sample, limits())])),
    show,
    navigation,

    async start() {
      const health = api.health().then(
        (server) => dispatch({ type: "healthReceived", server }),
        (error) => announce(error.message, true),
      );
      const entries = await storage.load();
      if (entries.length > 0) dispatch({ type: "imagesRestored", entries });
      const saved = navigation.savedImage();
      if (saved !== null) navigate(saved);
      else await reportingErrors(openLink)();
      navigation.start();
      await health;
      queue.prepareAll();
    },

    removeImage(id) {
      const wasOpen = getState().image?.id === id;
      URL.revokeObjectURL(findEntry(getState(), id).image.url);
      dispatch({ type: "imageRemoved", remove: id });
      if (wasOpen) show(null);
      else requestFocus(getState().image ? "new-box" : "file");
    },
    removeAll() {
      for (const { image } of getState().images) actions.removeImage(image.id);
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
      requestFocus(next.length ? `proposal:${next[Math.min(position, next.length - 1)].number}` : "new-box");
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

    suggestRegions: reportingErrors(async () => {
      const { image } = getState();
      const document = currentDocument(getState());
      const sets = await suggestSets(api, image, document);
      if (sets.length > 0)
        dispatch({
          type: "documentReplaced",
          id: image.id,
          document: { ...document, sets, suggested: true },
          label: "regions chosen automatically",
        });
    }),

    async requestAlternatives() {
      const { image } = getState();
      const document = currentDocument(getState());
      const { n_best: _, ...request } = captionRequest(document);
      const key = requestKey(document);
      dispatch({ type: "alternativesRequested", key, sets: document.sets });
      try {
        const { captions } = await api.alternatives(image, { ...request, limit: NUM_ALTERNATIVES });
        dispatch({ type: "alternativesReceived", id: image.id, key, captions });
      } catch (error) {
        dispatch({ type: "alternativesFailed", id: image.id, key, error: error.message });
      }
    },

    applyAlternative(caption) {
      const { sets } = getState().alternatives;
      const document = { ...currentDocument(getState()), sets: caption.order.sets.map((number) => sets[number]) };
      dispatch({ type: "documentReplaced", document: { ...document, ordered: true }, label: "another order" });
    },

    restore: ({ document }) => dispatch({ type: "documentReplaced", document, label: "an earlier caption" }),

    retry() {
      const { image, detectStatus } = getState();
      if (detectStatus === "failed") dispatch({ type: "detectStarted" });
      if (currentDocument(getState()).sets.length > 0) requestCaption();
      queue.prepare(image.id);
    },

    ...createExportActions({ getState, announce, reportingErrors }),

    listen() {
      navigation.listen();
      window.addEventListener("keydown", onKeyDown);
      window.addEventListener("paste", (event) => {
        const files = filesOf(event.clipboardData);
        if (files.length > 0) openFiles(files);
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
        const files = filesOf(event.dataTransfer);
        if (files.length > 0) openFiles(files);
        else announce("Only files can be dropped here: save the image first, or paste it", true);
      });
    },
  };

  function onKeyDown(event) {
    const { mode, lifted, pinnedWord } = getState();
    if (event.key === "Escape" && (mode !== "point" || lifted !== null)) dispatch({ type: "cancelled" });
    if (event.key === "Escape" && pinnedWord !== null) dispatch({ type: "wordPinned", word: null });
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.target.matches?.("input[type=text]")) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    dispatch({ type: key === "y" || event.shiftKey ? "redone" : "undone" });
  }

  return actions;
}
