// What a person can ask the page to do beyond changing the state: open, find, copy, save.

import { controlOf, placeOf } from "../state/control.js";
import { question, questionKey } from "../state/document.js";
import { fragmentOf, readFragment } from "../state/link.js";
import { captionOf, documentOf, openProposals } from "../state/state.js";
import { browserMeasure, drawing } from "./drawing.js";
import { openPicture, openSample, pictureFile, SAMPLES } from "./pictures.js";
import { asDataAddress, asPng, copy, fileName, save } from "./saving.js";

const LIMITS = { picture_bytes: 10 * 2 ** 20, megapixels: 40 }; // until the server has told its own
const OTHER_WAYS = 6;

export function createActs({ dispatch, getState, service, ask, later }) {
  const limits = () => ({ ...LIMITS, ...getState().server?.limits });
  const tell = (text, shown = false) => dispatch({ type: "told", text, shown });

  /** Do it, and say what went wrong if it did. */
  const tried =
    (deed) =>
    async (...inputs) => {
      try {
        return await deed(...inputs);
      } catch (error) {
        dispatch({ type: "troubled", trouble: error.message });
        return null;
      }
    };

  async function show(picture, document = null) {
    const before = getState().picture;
    if (before) URL.revokeObjectURL(before.url);
    dispatch({ type: "opened", picture, document });
    if (!document) dispatch({ type: "focus", name: "new-box" }); // what had it is gone
    const isHere = () => getState().picture?.url === picture.url; // another one may have been opened meanwhile
    let found;
    try {
      found = await service.detect(picture);
    } catch (error) {
      if (isHere()) dispatch({ type: "lookFailed", trouble: error.message });
      return;
    }
    if (!isHere()) return;
    const proposals = found.regions.map(({ box, class: name, score }) => ({
      box,
      name: name ?? null,
      score: score ?? null,
    }));
    dispatch({ type: "looked", hash: found.picture.id, proposals });
  }

  const openFile = tried(async (file) => {
    if (file) await show(await openPicture(file, { name: file.name || "pasted picture", limits: limits() }));
  });

  const openOne = tried(async (sample, document = null) => show(await openSample(sample, limits()), document));

  /** Bring back what the address asks for. */
  function follow() {
    const asked = readFragment(location.hash);
    if (!asked) return;
    const sample = SAMPLES.find(({ name }) => name === asked.sample);
    if (sample) openOne(sample, asked.document);
    else if (asked.hash)
      dispatch({ type: "wanted", wanted: { hash: asked.hash, name: asked.name, document: asked.document } });
  }

  const act = {
    dispatch,
    openFile,
    openSample: (sample) => openOne(sample),

    async begin() {
      follow();
      try {
        dispatch({ type: "served", server: await service.health() });
      } catch (error) {
        tell(error.message, true);
      }
    },

    close() {
      const { picture } = getState();
      if (picture) URL.revokeObjectURL(picture.url);
      dispatch({ type: "closed" });
      dispatch({ type: "focus", name: "file" });
    },

    light: (lit) => dispatch({ type: "lit", lit }),
    tellSoon: (text) => later("where", 400, () => tell(text)),

    theme(theme) {
      localStorage.setItem("theme", theme);
      dispatch({ type: "themed", theme });
    },

    showKeys: () => document.getElementById("keys").showModal(),

    newBox(byKey) {
      if (byKey) dispatch({ type: "addedInMiddle" });
      else dispatch({ type: "mode", mode: getState().mode === "draw" ? "point" : "draw" });
    },

    addProposal(number) {
      const before = openProposals(getState());
      const place = before.findIndex((each) => each.number === number);
      if (place < 0) return;
      const hadFocus = document.activeElement?.dataset.focus === `proposal:${number}`;
      dispatch({ type: "added", box: before[place].box, name: before[place].name });
      if (!hadFocus) return;
      const next = openProposals(getState());
      dispatch({
        type: "focus",
        name: next.length ? `proposal:${next[Math.min(place, next.length - 1)].number}` : "new-box",
      });
    },

    /** A region was chosen: it joins the selected one where that is being merged, else it is selected. */
    chooseSet(set) {
      const { mode, selected } = getState();
      const { sets } = documentOf(getState());
      if (mode === "merge" && selected !== set && placeOf(sets, selected) >= 0)
        dispatch({ type: "merged", into: selected, from: set });
      else dispatch({ type: "selected", set });
    },

    merge(begins) {
      const place = placeOf(documentOf(getState()).sets, getState().selected);
      dispatch({
        type: "mode",
        mode: begins ? "merge" : "point",
        tell: begins ? `Choose what joins region ${place + 1}, or press Escape` : "Nothing was merged",
      });
    },

    chooseForMe: tried(async () => {
      const { picture } = getState();
      const asked = { ...question(documentOf(getState())), control: null, n_best: 1, ordered: true };
      const {
        captions: [caption],
      } = await service.caption(picture, asked);
      if (!caption || getState().picture?.url !== picture.url) return;
      const inOrder = caption.order?.sets ?? caption.control.map((_, number) => number);
      const pick = (values) => inOrder.map((number) => values[number]);
      dispatch({
        type: "replaced",
        sets: controlOf(pick(caption.control), pick(caption.classes)),
        label: "regions chosen by the captioner",
      });
    }),

    async findWays() {
      const document = documentOf(getState());
      const { n_best: _, ...asked } = question(document);
      const key = questionKey(document);
      dispatch({ type: "waysAsked", key, sets: document.sets });
      try {
        const { captions } = await service.ways(getState().picture, { ...asked, number: OTHER_WAYS });
        dispatch({ type: "waysAnswered", key, captions });
      } catch (error) {
        dispatch({ type: "waysFailed", key, trouble: error.message });
      }
    },

    useWay(caption) {
      const { sets } = getState().ways;
      dispatch({
        type: "replaced",
        sets: caption.order.sets.map((number) => sets[number]),
        label: "another way to say it",
      });
    },

    bringBack: ({ document }) => dispatch({ type: "replaced", ...document, label: "an earlier control" }),
    askAgain: () => ask(),

    copyText: tried(async () => {
      await copy(captionOf(getState()).text);
      tell("Text copied", true);
    }),
    copyLink: tried(async () => {
      const { picture } = getState();
      await copy(`${location.href.split("#")[0]}#${fragmentOf(picture, documentOf(getState()))}`);
      tell(picture.sample ? "Link copied" : "Link copied; it does not hold the picture", true);
    }),
    saveJson: tried(async () => {
      const { picture } = getState();
      const content = {
        picture: { name: picture.name, id: picture.hash, width: picture.width, height: picture.height },
        ...captionOf(getState()),
      };
      save(new Blob([JSON.stringify(content, null, 2)], { type: "application/json" }), fileName(picture, "json"));
    }),
    saveSvg: tried(async () => {
      const { svg } = await drawn();
      save(new Blob([svg], { type: "image/svg+xml" }), fileName(getState().picture, "svg"));
    }),
    savePng: tried(async () => {
      const sheet = await drawn();
      save(await asPng(sheet.svg, sheet), fileName(getState().picture, "png"));
    }),

    listen() {
      window.addEventListener("keydown", keys);
      window.addEventListener("hashchange", follow);
      window.addEventListener("paste", (event) => {
        const file = pictureFile(event.clipboardData);
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
        const file = pictureFile(event.dataTransfer);
        if (file) openFile(file);
        else tell("Only files can be dropped here: save the picture first, or copy and paste it", true);
      });
    },
  };

  function keys(event) {
    const { mode, lifted } = getState();
    if (event.key === "Escape" && (mode !== "point" || lifted !== null)) dispatch({ type: "cancelled" });
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key !== "z" && key !== "y") return;
    event.preventDefault();
    dispatch({ type: key === "y" || event.shiftKey ? "redone" : "undone" });
  }

  async function drawn() {
    const { picture } = getState();
    return drawing(picture, await asDataAddress(picture.blob), captionOf(getState()), browserMeasure());
  }

  return act;
}
