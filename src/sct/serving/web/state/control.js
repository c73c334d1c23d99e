// The control: region sets, in the order in which they are numbered and coloured. Every function gives a new one.
//
// A set is {id, boxes: [{id, box, name}]}; ids stay with what a person sees while numbers change with the order.

const replaced = (sets, id, change) => sets.map((set) => (set.id === id ? change(set) : set));
const filled = (sets) => sets.filter((set) => set.boxes.length > 0);

export const placeOf = (sets, id) => sets.findIndex((set) => set.id === id);
export const setOf = (sets, id) => sets.find((set) => set.id === id) ?? null;
export const setWithBox = (sets, boxId) => sets.find((set) => set.boxes.some((box) => box.id === boxId)) ?? null;
export const boxesOf = (sets) => sets.flatMap((set) => set.boxes);
export const nextId = (sets) => 1 + Math.max(0, ...sets.map((set) => set.id), ...boxesOf(sets).map((box) => box.id));

/** A new set of one box, last. */
export function added(sets, box, name = null) {
  const id = nextId(sets);
  return [...sets, { id, boxes: [{ id: id + 1, box, name }] }];
}

/** A box more for a set that is there. */
export function joined(sets, id, box, name = null) {
  return replaced(sets, id, (set) => ({ ...set, boxes: [...set.boxes, { id: nextId(sets), box, name }] }));
}

/** A box elsewhere; what it shows is no longer known by the old name. */
export function reshaped(sets, boxId, box, name = null) {
  return sets.map((set) => ({
    ...set,
    boxes: set.boxes.map((each) => (each.id === boxId ? { ...each, box, name } : each)),
  }));
}

export function withoutBox(sets, boxId) {
  return filled(sets.map((set) => ({ ...set, boxes: set.boxes.filter((box) => box.id !== boxId) })));
}

export const withoutSet = (sets, id) => sets.filter((set) => set.id !== id);

/** One set takes in the boxes of another, and keeps its place. */
export function merged(sets, into, from) {
  const taken = setOf(sets, from);
  if (!taken || into === from || !setOf(sets, into)) return sets;
  return withoutSet(
    replaced(sets, into, (set) => ({ ...set, boxes: [...set.boxes, ...taken.boxes] })),
    from,
  );
}

/** Each box of a set becomes a set of its own, in the same place; the first keeps the id. */
export function split(sets, id) {
  let next = nextId(sets);
  return sets.flatMap((set) =>
    set.id === id ? set.boxes.map((box, place) => ({ id: place ? next++ : id, boxes: [box] })) : [set],
  );
}

/** A set moved to a place among the others. */
export function reordered(sets, id, place) {
  const set = setOf(sets, id);
  if (!set) return sets;
  const others = withoutSet(sets, id);
  const target = Math.min(Math.max(place, 0), others.length);
  return [...others.slice(0, target), set, ...others.slice(target)];
}

/** What a person calls a set: the names of what it holds, or that it is a box. */
export function nameOf(set) {
  const names = [...new Set(set.boxes.map((box) => box.name).filter(Boolean))];
  if (names.length > 0) return names.join(" and ");
  return set.boxes.length > 1 ? `${set.boxes.length} boxes` : "box";
}

/** Regions that have no name yet take the one that the captioner has for them. */
export function named(sets, classes) {
  return sets.map((set, place) => ({
    ...set,
    boxes: set.boxes.map((box, index) => ({ ...box, name: box.name ?? classes?.[place]?.[index] ?? null })),
  }));
}

/** Sets of boxes and names as they stand in messages. */
export function controlOf(boxes, classes) {
  return boxes.reduce((sets, group, place) => {
    const first = added(sets, group[0], classes?.[place]?.[0] ?? null);
    const { id } = first.at(-1);
    return group
      .slice(1)
      .reduce((all, box, index) => joined(all, id, box, classes?.[place]?.[index + 1] ?? null), first);
  }, []);
}
