// The page: a state, a view of it, and a captioner that is asked whenever the state asks something new.

import { createActs } from "./work/acts.js";
import { createAsking } from "./work/asking.js";
import { createGestures } from "./work/gestures.js";
import { createService } from "./work/service.js";
import { readToken } from "./work/token.js";
import { captionOf, documentOf, initialState, shownDocument } from "./state/state.js";
import { fragmentOf } from "./state/link.js";
import { reduce } from "./state/reducer.js";
import { question, questionKey } from "./state/document.js";
import { page } from "./view/page.js";
import { render } from "./view/elements.js";

const PAUSE = 120; // milliseconds without a change after which a caption is asked for
const SETTLED = 900; // after which the next press of an arrow key is another step
const root = document.getElementById("page");
const service = createService({ token: readToken() });

let state = initialState(savedTheme());
let isDrawn = true;

function dispatch(action) {
  const before = state;
  state = reduce(state, action);
  if (state === before) return;
  react(before);
  if (isDrawn) queueMicrotask(draw); // once for all that happens in one go
  isDrawn = false;
}

function draw() {
  isDrawn = true;
  document.documentElement.dataset.theme = state.theme;
  render(root, page(state, act));
  if (state.focus && state.focus !== focusedLast) {
    focusedLast = state.focus;
    root.querySelector(`[data-focus="${CSS.escape(state.focus.name)}"]`)?.focus();
  }
}
let focusedLast = null;

const asking = createAsking({
  pause: PAUSE,
  asked: () => dispatch({ type: "asking" }),
  answered: (key, answer) => {
    dispatch({
      type: "answered",
      key,
      sets: shownDocument(state).sets,
      hash: answer.picture.id,
      captions: answer.captions,
    });
  },
  failed: (key, error) => dispatch({ type: "askingFailed", trouble: error.message }),
});

/** What follows from a change: a question, words to be heard, a link, the end of a step. */
function react(before) {
  if (state.picture !== before.picture && state.picture?.url !== before.picture?.url) asking.forget();
  if (state.message !== before.message) {
    say("told", state.message.text);
    toast(state.message.shown);
  }
  if (state.draft === null && captionOf(state) !== captionOf(before)) say("spoken", captionOf(state)?.text ?? "");
  if (state.timeline !== before.timeline || state.draft !== before.draft || state.picture !== before.picture) ask();
  if (state.timeline !== before.timeline || state.picture !== before.picture) {
    later("link", 300, keepLink);
    if (state.timeline.present.kind !== null) later("settle", SETTLED, () => dispatch({ type: "settled" }));
  }
}

function ask() {
  const { picture } = state;
  const document = shownDocument(state);
  if (!picture || document.sets.length === 0) {
    asking.want(null);
    if (state.answer || state.asking !== "idle") dispatch({ type: "nothingToAsk" });
    return;
  }
  asking.want(questionKey(document), (signal) => service.caption(state.picture, question(document), signal));
}

/** A fresh text in a live region is read out; the same text is made fresh by emptying it first. */
function say(id, text) {
  const place = document.getElementById(id);
  place.textContent = "";
  later(id, 30, () => (place.textContent = text));
}

function toast(isShown) {
  const show = (shown) => (document.getElementById("told").className = shown ? "toast" : "unseen");
  show(isShown);
  if (isShown) later("toast", 3000, () => show(false));
}

/** The address always holds the control, so that loading the page again brings it back. */
function keepLink() {
  const { picture } = state;
  if (picture && (picture.sample || picture.hash)) {
    history.replaceState(null, "", `#${fragmentOf(picture, documentOf(state))}`);
  } else if (!picture && !state.wanted) {
    history.replaceState(null, "", location.pathname);
  }
}

addEventListener("pagehide", keepLink);

const timers = new Map();
function later(name, milliseconds, deed) {
  clearTimeout(timers.get(name));
  timers.set(name, setTimeout(deed, milliseconds));
}

function savedTheme() {
  const saved = localStorage.getItem("theme");
  return saved === "light" || saved === "dark" ? saved : "auto";
}

const act = createActs({ dispatch, getState: () => state, service, ask: () => ask(), later });
act.gestures = createGestures(() => state, act);
act.listen();
draw();
act.begin();
