// From a state and what happened to the next state. Changes of the document are in changes.js.

import { changes } from "./changes.js";
import { named } from "./control.js";
import { questionKey } from "./document.js";
import { remembered } from "./history.js";
import { documentOf, initialState } from "./state.js";
import { focused, told } from "./telling.js";
import { begun, redone, settled, undone } from "./timeline.js";

export function reduce(state, action) {
  const step = steps[action.type] ?? changes[action.type];
  if (!step) throw new Error(`nothing is known of the action ${action.type}`);
  const next = step(state, action);
  return next.timeline === state.timeline && next.answer === state.answer ? next : noted(next);
}

/** Where the answer is one to the document as it stands, its names are taken over and it is remembered. */
function noted(state) {
  const document = documentOf(state);
  const { answer } = state;
  if (!answer || answer.captions.length === 0 || answer.key !== questionKey(document)) return state;
  const sets = named(document.sets, answer.captions[0].classes);
  const present = { ...state.timeline.present, document: { ...document, sets } };
  return { ...state, timeline: { ...state.timeline, present }, history: remembered(state.history, present, answer) };
}

const calm = { draft: null, dragged: null, band: null, mode: "point", lit: null, lifted: null };

/** A step back or forth: what no longer is there is no longer selected. */
function travelled(state, timeline, verb) {
  if (timeline.present === state.timeline.present) return told(state, `Nothing to ${verb}`, true);
  const step = verb === "undo" ? state.timeline.present : timeline.present;
  const selected = timeline.present.document.sets.some((set) => set.id === state.selected) ? state.selected : null;
  return told(
    { ...state, ...calm, timeline, selected },
    `${verb === "undo" ? "Undone" : "Done again"}: ${step.label}`,
    true,
  );
}

const steps = {
  served: (state, { server }) => ({ ...state, server }),

  opened: (state, { picture, document }) => ({
    ...initialState(state.theme),
    server: state.server,
    wanted: document ? null : state.wanted,
    showsProposals: state.showsProposals,
    message: state.message,
    picture,
    looking: "waiting",
    timeline: document ? begun(document) : initialState().timeline,
  }),

  closed: (state) => ({ ...initialState(state.theme), server: state.server, message: state.message }),

  wanted: (state, { wanted }) => ({ ...initialState(state.theme), server: state.server, wanted }),

  /** The server has looked: it tells the hash of the picture, by which a link knows its own. */
  looked: (state, { hash, proposals }) => {
    const next = { ...state, looking: "ready", proposals, picture: { ...state.picture, hash } };
    if (!state.wanted)
      return told(next, proposals.length ? `${proposals.length} regions proposed` : "No region proposed");
    if (state.wanted.hash !== hash) {
      return told(next, "This is another picture than the one of the link: its regions were left out", true);
    }
    return told(
      { ...next, wanted: null, timeline: begun(state.wanted.document) },
      "The control of the link is back",
      true,
    );
  },

  troubled: (state, { trouble }) => ({ ...state, trouble }),
  lookFailed: (state, { trouble }) => ({ ...state, looking: "failed", trouble }),

  /** The focus selects what it comes to, but for while another region is being looked for. */
  focused: (state, { set }) => (state.mode === "merge" || state.selected === set ? state : { ...state, selected: set }),
  selected: (state, { set }) => (state.selected === set ? state : { ...state, selected: set }),
  lit: (state, { lit }) => (JSON.stringify(lit) === JSON.stringify(state.lit) ? state : { ...state, lit }),
  mode: (state, { mode, tell }) => (tell ? told({ ...state, mode, band: null }, tell) : { ...state, mode, band: null }),
  proposalsShown: (state, { shows }) => ({ ...state, showsProposals: shows }),
  themed: (state, { theme }) => ({ ...state, theme }),
  focus: (state, { name }) => focused(state, name),
  told: (state, { text, shown }) => told(state, text, shown),

  banded: (state, { band }) => ({ ...state, band }),
  drafted: (state, { sets, dragged = null }) => ({ ...state, draft: sets, dragged }),
  cancelled: (state) => ({ ...state, ...calm, focus: state.focus }),
  lifted: (state, { set, text }) => told({ ...state, lifted: set }, text),

  undone: (state) => travelled(state, undone(state.timeline), "undo"),
  redone: (state) => travelled(state, redone(state.timeline), "redo"),
  settled: (state) => ({ ...state, timeline: settled(state.timeline) }),

  asking: (state) => ({ ...state, asking: "waiting", trouble: null }),
  askingFailed: (state, { trouble }) => ({ ...state, asking: "failed", trouble }),
  nothingToAsk: (state) => ({ ...state, asking: "idle", answer: null, trouble: null, ways: null, lit: null }),

  answered: (state, { key, hash, sets, captions }) => ({
    ...state,
    picture: { ...state.picture, hash },
    answer: { key, sets, captions, chosen: 0 },
    asking: "idle",
    trouble: null,
    lit: state.lit?.word >= (captions[0]?.words.length ?? 0) ? null : state.lit,
  }),

  preferred: (state, { chosen }) => ({ ...state, answer: { ...state.answer, chosen }, lit: null }),

  waysAsked: (state, { key, sets }) => ({ ...state, ways: { key, sets, captions: [], status: "waiting" } }),
  waysAnswered: (state, { key, captions }) => {
    if (state.ways?.key !== key) return state;
    const text = captions.length ? `${captions.length} other ways to say it` : "There is no other way to say it";
    return told({ ...state, ways: { ...state.ways, captions, status: "ready" } }, text);
  },
  waysFailed: (state, { key, trouble }) =>
    state.ways?.key === key ? told({ ...state, ways: { ...state.ways, status: "failed", trouble } }, trouble) : state,
};
