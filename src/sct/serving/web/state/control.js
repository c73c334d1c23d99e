// Operations on the control, an array of region sets; every function returns a new array.
//
// A set is {id, boxes: [{id, box, name, given}]}. Ids are stable; numbers and colours follow the position. `name` is the
// detected class, `given` the name that the user wants the caption to say; both may be null.

const updateSet = (sets, id, change) => sets.map((set) => (set.id === id ? change(set) : set));
const nonEmpty = (sets) => sets.filter((set) => set.boxes.length > 0);

export const indexOfSet = (sets, id) => sets.findIndex((set) => set.id === id);
export const findSet = (sets, id) => sets.find((set) => set.id === id) ?? null;
export const findSetOfBox = (sets, boxId) => sets.find((set) => set.boxes.some((box) => box.id === boxId)) ?? null;
export const allBoxes = (sets) => sets.flatMap((set) => set.boxes);
export const nextId = (sets) => 1 + Math.max(0, ...sets.map((set) => set.id), ...allBoxes(sets).map((box) => box.id));

/** Append a set of one box. */
export function addSet(sets, box, name = null, given = null) {
  const id = nextId(sets);
  return [...sets, { id, boxes: [{ id: id + 1, box, name, given }] }];
}

/** Add a box to a set; it takes over the name given to the set. */
export function addBox(sets, id, box, name = null, given = null) {
  return updateSet(sets, id, (set) => ({
    ...set,
    boxes: [...set.boxes, { id: nextId(sets), box, name, given: given ?? givenName(set) }],
  }));
}

/** Name that the user gave to all boxes of a set, or null. */
export function givenName(set) {
  const [first] = set.boxes;
  return set.boxes.every(({ given }) => given === first.given) ? first.given : null;
}

/** Give a set a name; null returns to the detected ones. */
export const renameSet = (sets, id, given) =>
  updateSet(sets, id, (set) => ({ ...set, boxes: set.boxes.map((box) => ({ ...box, given })) }));

/** Change the coordinates of a box and its detected name. */
export function setBox(sets, boxId, box, name = null) {
  return sets.map((set) => ({
    ...set,
    boxes: set.boxes.map((each) => (each.id === boxId ? { ...each, box, name } : each)),
  }));
}

export function removeBox(sets, boxId) {
  return nonEmpty(sets.map((set) => ({ ...set, boxes: set.boxes.filter((box) => box.id !== boxId) })));
}

export const removeSet = (sets, id) => sets.filter((set) => set.id !== id);

/** Move the boxes of set `from` into set `into`. */
export function mergeSets(sets, into, from) {
  const source = findSet(sets, from);
  if (!source || into === from || !findSet(sets, into)) return sets;
  return removeSet(
    updateSet(sets, into, (set) => ({ ...set, boxes: [...set.boxes, ...source.boxes] })),
    from,
  );
}

/** Split a set into one set per box, in place; the first keeps the id. */
export function splitSet(sets, id) {
  let next = nextId(sets);
  return sets.flatMap((set) =>
    set.id === id ? set.boxes.map((box, position) => ({ id: position ? next++ : id, boxes: [box] })) : [set],
  );
}

/** Move a set to another position. */
export function moveSet(sets, id, position) {
  const set = findSet(sets, id);
  if (!set) return sets;
  const others = removeSet(sets, id);
  const target = Math.min(Math.max(position, 0), others.length);
  return [...others.slice(0, target), set, ...others.slice(target)];
}

export const boxName = ({ given, name }) => given ?? name;

/** Display name of a set: its names, or the number of boxes. */
export function setLabel(set) {
  const names = [...new Set(set.boxes.map(boxName).filter(Boolean))];
  if (names.length > 0) return names.join(" and ");
  return set.boxes.length > 1 ? `${set.boxes.length} boxes` : "box";
}

/** Give boxes without a name the detected class names of a result. */
export function fillNames(sets, classes) {
  return sets.map((set, position) => ({
    ...set,
    boxes: set.boxes.map((box, index) =>
      box.given ? box : { ...box, name: box.name ?? classes?.[position]?.[index] ?? null },
    ),
  }));
}

/** Build sets from the boxes and classes of a response, or with names given by the user. */
export function makeSets(boxes, classes, given) {
  return boxes.reduce((sets, group, position) => {
    const nameOf = (names, index) => names?.[position]?.[index] ?? null;
    const first = addSet(sets, group[0], nameOf(classes, 0), nameOf(given, 0));
    const { id } = first.at(-1);
    return group
      .slice(1)
      .reduce((all, box, index) => addBox(all, id, box, nameOf(classes, index + 1), nameOf(given, index + 1)), first);
  }, []);
}
