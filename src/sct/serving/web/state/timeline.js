// Undo history.
//
// A step is {document, label, kind, number}. Consecutive steps of the same non-null kind (arrow keys that move a box)
// are merged until the step is closed.

const MAX_STEPS = 200;

export const newTimeline = (document) => ({
  past: [],
  present: { document, label: "start", kind: null, number: 0 },
  future: [],
});

export function pushStep(timeline, document, label, kind = null) {
  const { past, present, future } = timeline;
  if (kind !== null && kind === present.kind) {
    return { past, present: { ...present, document, label }, future: [] };
  }
  const number = 1 + Math.max(present.number, ...past.map((step) => step.number), ...future.map((step) => step.number));
  return { past: [...past, present].slice(-MAX_STEPS), present: { document, label, kind, number }, future: [] };
}

/** Close the present step, so that the next one of its kind is not merged with it. */
export function closeStep(timeline) {
  return timeline.present.kind === null ? timeline : { ...timeline, present: { ...timeline.present, kind: null } };
}

export function undo({ past, present, future }) {
  if (past.length === 0) return { past, present, future };
  return { past: past.slice(0, -1), present: { ...past.at(-1), kind: null }, future: [present, ...future] };
}

export function redo({ past, present, future }) {
  if (future.length === 0) return { past, present, future };
  return { past: [...past, present], present: { ...future[0], kind: null }, future: future.slice(1) };
}
