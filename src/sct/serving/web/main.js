// Entry point: holds the state, renders it, and runs the effects of each state change.

import { createActions } from "./effects/actions.js";
import { createCaptionRequests } from "./effects/caption_requests.js";
import { createGestures } from "./effects/gestures.js";
import { createImageQueue } from "./effects/image_queue.js";
import { createStorage } from "./effects/storage.js";
import { createApi } from "./effects/api.js";
import { readToken } from "./effects/token.js";
import { initialState, selectedCaption, shownDocument } from "./state/state.js";
import { reduce } from "./state/reducer.js";
import { captionRequest, requestKey } from "./state/document.js";
import { page } from "./view/page.js";
import { render } from "./view/elements.js";

const CAPTION_DELAY = 120; // milliseconds without an edit before a caption is requested
const SAVE_DELAY = 200; // milliseconds without a change before images are saved
const STEP_DELAY = 900; // milliseconds after which the next arrow key starts a new undo step
const TITLE = document.title;
const root = document.getElementById("page");
const api = createApi({ token: readToken() });

let state = initialState(savedTheme());
let isRendered = true;

function dispatch(action) {
  const before = state;
  state = reduce(state, action);
  if (state === before) return;
  runEffects(before);
  if (isRendered) queueMicrotask(renderPage); // one render for all actions of this task
  isRendered = false;
}

function renderPage() {
  isRendered = true;
  document.documentElement.dataset.theme = state.theme;
  document.documentElement.dataset.storage = state.storage;
  document.title = state.image ? `${state.image.name} · ${TITLE}` : TITLE;
  render(root, page(state, actions));
  if (state.focus && state.focus !== lastFocus) {
    lastFocus = state.focus;
    root.querySelector(`[data-focus="${CSS.escape(state.focus.name)}"]`)?.focus();
  }
}
let lastFocus = null;

const captionRequests = createCaptionRequests({
  delay: CAPTION_DELAY,
  onRequest: () => dispatch({ type: "captionRequested" }),
  onResult: (key, result) => {
    dispatch({
      type: "captionReceived",
      key,
      sets: shownDocument(state).sets,
      hash: result.image.id,
      captions: result.captions,
    });
  },
  onError: (key, error) => dispatch({ type: "captionFailed", error: error.message }),
});

const storage = createStorage({
  delay: SAVE_DELAY,
  onChange: (change) => dispatch({ type: "storageChanged", storage: change }),
});
const queue = createImageQueue({ dispatch, getState: () => state, api });

/** Effects of a state change: saving, caption request, announcement, link update, end of an undo step. */
function runEffects(before) {
  const { image, result } = state;
  if (image?.id !== before.image?.id) {
    if (result) captionRequests.clear(result.key, { image: { id: image.hash }, captions: result.captions });
    else captionRequests.clear();
  }
  if (state.images !== before.images) saveImages(before.images);
  if (state.message !== before.message) {
    announce("announcement", state.message.text);
    toast(state.message.shown);
  }
  if (state.draft === null && selectedCaption(state) !== selectedCaption(before))
    announce("caption-announcement", selectedCaption(state)?.text ?? "");
  if (state.timeline !== before.timeline || state.draft !== before.draft || state.image !== before.image)
    requestCaption();
  if (state.timeline !== before.timeline || state.image !== before.image) {
    schedule("link", 300, () => actions.navigation.replace());
    if (state.timeline.present.kind !== null) schedule("settle", STEP_DELAY, () => dispatch({ type: "settled" }));
  }
}

function requestCaption() {
  const { image } = state;
  const document = shownDocument(state);
  if (!image || document.sets.length === 0) {
    captionRequests.request(null);
    if (state.result || state.captionStatus !== "idle") dispatch({ type: "captionCleared" });
    return;
  }
  captionRequests.request(requestKey(document), (signal) => api.caption(state.image, captionRequest(document), signal));
}

/** Set the text of a live region; clearing it first makes screen readers read a repeated text. */
function announce(id, text) {
  const element = document.getElementById(id);
  element.textContent = "";
  schedule(id, 30, () => (element.textContent = text));
}

function toast(isShown) {
  const show = (shown) => (document.getElementById("announcement").className = shown ? "toast" : "visually-hidden");
  show(isShown);
  if (isShown) schedule("toast", 3000, () => show(false));
}

/** Save the images that changed; restored ones are written again, which is harmless. */
function saveImages(before) {
  const known = new Map(before.map((entry) => [entry.image.id, entry]));
  state.images.forEach((entry, position) => {
    if (known.get(entry.image.id) !== entry) storage.save(entry, position);
    known.delete(entry.image.id);
  });
  for (const id of known.keys()) storage.remove(id);
}

addEventListener("pagehide", () => {
  actions.navigation.replace();
  storage.flush();
});

const timers = new Map();
function schedule(name, milliseconds, callback) {
  clearTimeout(timers.get(name));
  timers.set(name, setTimeout(callback, milliseconds));
}

function savedTheme() {
  const saved = localStorage.getItem("theme");
  return saved === "light" || saved === "dark" ? saved : "auto";
}

const actions = createActions({ dispatch, getState: () => state, api, queue, storage, requestCaption, schedule });
actions.gestures = createGestures(() => state, actions);
actions.listen();
renderPage();
actions.start();
