// What a person did, one step after the other, so that it can be undone and done again.
//
// A step is {document, label, kind}. Steps of one kind that follow each other without a pause (arrow keys that move a
// box) are one step.

const MOST_STEPS = 200;

export const begun = (document) => ({
  past: [],
  present: { document, label: "start", kind: null, number: 0 },
  future: [],
});

export function done(timeline, document, label, kind = null) {
  const { past, present, future } = timeline;
  if (kind !== null && kind === present.kind) {
    return { past, present: { ...present, document, label }, future: [] };
  }
  const number = 1 + Math.max(present.number, ...past.map((step) => step.number), ...future.map((step) => step.number));
  return { past: [...past, present].slice(-MOST_STEPS), present: { document, label, kind, number }, future: [] };
}

/** The present step is closed: the next one of its kind is another. */
export function settled(timeline) {
  return timeline.present.kind === null ? timeline : { ...timeline, present: { ...timeline.present, kind: null } };
}

export function undone({ past, present, future }) {
  if (past.length === 0) return { past, present, future };
  return { past: past.slice(0, -1), present: { ...past.at(-1), kind: null }, future: [present, ...future] };
}

export function redone({ past, present, future }) {
  if (future.length === 0) return { past, present, future };
  return { past: [...past, present], present: { ...future[0], kind: null }, future: future.slice(1) };
}
