// Preparation of images: regions are detected, some are suggested and captioned, without a click.
//
// The open image is prepared at once, the others one after another; the caption of the open one is requested by
// caption_requests.js.

import { makeSets } from "../state/control.js";
import { captionRequest, emptyDocument, requestKey } from "../state/document.js";
import { findEntry, needsCaption, needsSuggestion } from "../state/images.js";
import { sendWithRetry } from "./caption_requests.js";

const NUM_PROPOSALS = 60; // before near-duplicates are suppressed

/** Regions that the captioner selects for an image, in its order; with the words and options of a document. */
export async function suggestSets(api, image, document) {
  const request = { ...captionRequest({ ...document, sets: [] }), control: null, n_best: 1, ordered: true };
  const { captions } = await sendWithRetry(() => api.caption(image, request));
  if (captions.length === 0) return [];
  const [caption] = captions;
  const inOrder = caption.order?.sets ?? caption.control.map((_, number) => number);
  const pick = (values) => inOrder.map((number) => values[number]);
  return makeSets(pick(caption.control), pick(caption.classes));
}

export function createImageQueue({ dispatch, getState, api }) {
  const inProgress = new Set();
  let queue = Promise.resolve();

  async function detect(id) {
    const { image } = findEntry(getState(), id);
    try {
      const found = await sendWithRetry(() => api.detect(image, NUM_PROPOSALS));
      const proposals = found.regions.map(({ box, class: name, score }) => ({
        box,
        name: name ?? null,
        score: score ?? null,
      }));
      dispatch({ type: "detected", id, hash: found.image.id, proposals });
    } catch (error) {
      dispatch({ type: "detectFailed", id, error: error.message });
    }
  }

  async function suggest(id) {
    const { image } = findEntry(getState(), id);
    dispatch({ type: "captionRequested", id });
    try {
      dispatch({ type: "suggested", id, sets: await suggestSets(api, image, emptyDocument()) });
    } catch (error) {
      dispatch({ type: "captionFailed", id, error: error.message });
    }
  }

  async function caption(id) {
    const { image, timeline } = findEntry(getState(), id);
    const { document } = timeline.present;
    const key = requestKey(document);
    try {
      const { image: { id: hash }, captions } = await sendWithRetry(() => api.caption(image, captionRequest(document)));
      dispatch({ type: "captionReceived", id, key, hash, sets: document.sets, captions });
    } catch (error) {
      dispatch({ type: "captionFailed", id, error: error.message });
    }
  }

  async function prepare(id) {
    if (inProgress.has(id)) return;
    inProgress.add(id);
    const entry = () => findEntry(getState(), id); // null once the image has been removed
    if (entry()?.detectStatus === "waiting") await detect(id);
    if (entry() && needsSuggestion(entry())) await suggest(id);
    if (entry() && getState().image?.id !== id && needsCaption(entry())) await caption(id);
    inProgress.delete(id);
  }

  return {
    prepare,
    /** Prepare all images that need it, one after another. */
    prepareAll() {
      for (const { image } of getState().images) queue = queue.then(() => prepare(image.id));
    },
  };
}
