// Images and their controls in IndexedDB, so that they survive a reload. Nothing in it leaves the browser.

const DATABASE = "sct-studio";
const VERSION = 1;
const BLOBS = "blobs"; // written once per image
const ENTRIES = "entries"; // the rest of an entry of state/images.js
const MAX_STEPS = 50; // of the undo history

const asPromise = (request) =>
  new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });

function openDatabase() {
  const request = indexedDB.open(DATABASE, VERSION);
  request.onupgradeneeded = () => {
    request.result.createObjectStore(BLOBS);
    request.result.createObjectStore(ENTRIES);
  };
  return asPromise(request);
}

/** An entry without what is not worth keeping, or cannot be kept. */
function toRecord(entry, position) {
  const { blob: _, url: __, ...image } = entry.image;
  const { past, present, future } = entry.timeline;
  const timeline = { past: past.slice(-MAX_STEPS), present: { ...present, kind: null }, future };
  const isFound = entry.detectStatus === "ready";
  return {
    ...entry,
    image,
    timeline,
    position,
    detectStatus: isFound ? "ready" : "waiting",
    captionStatus: "idle",
    error: null,
    alternatives: null,
  };
}

/** `onChange("saving" | "saved" | "failed")` reports the state of all writes together. */
export function createStorage({ delay, onChange }) {
  let database = null;
  const pending = new Map(); // id -> [entry, position], or null to delete
  let timer = null;
  let isFlushing = false;

  const connect = () => (database ??= openDatabase());

  async function write(changes) {
    const transaction = (await connect()).transaction([BLOBS, ENTRIES], "readwrite");
    const [blobs, entries] = [BLOBS, ENTRIES].map((name) => transaction.objectStore(name));
    for (const [id, change] of changes) {
      if (change === null) {
        blobs.delete(id);
        entries.delete(id);
        continue;
      }
      const [entry, position] = change;
      if ((await asPromise(blobs.count(id))) === 0) blobs.put(entry.image.blob, id);
      entries.put(toRecord(entry, position), id);
    }
    await new Promise((done, failed) => {
      transaction.oncomplete = done;
      transaction.onabort = transaction.onerror = () => failed(transaction.error);
    });
  }

  async function flush() {
    clearTimeout(timer);
    if (isFlushing || pending.size === 0) return;
    isFlushing = true;
    const changes = [...pending];
    pending.clear();
    try {
      await write(changes);
      if (pending.size === 0) onChange("saved");
    } catch {
      onChange("failed"); // private browsing, or no space left: the page works without
    }
    isFlushing = false;
    if (pending.size > 0) flush();
  }

  function schedule(id, change) {
    pending.set(id, change);
    onChange("saving");
    clearTimeout(timer);
    timer = setTimeout(flush, delay);
  }

  return {
    flush,
    save: (entry, position) => schedule(entry.image.id, [entry, position]),
    remove: (id) => schedule(id, null),

    /** All entries in order; none if the browser has no storage. */
    async load() {
      try {
        const transaction = (await connect()).transaction([BLOBS, ENTRIES]);
        const [blobs, entries] = [BLOBS, ENTRIES].map((name) => transaction.objectStore(name));
        const [records, ids, files] = await Promise.all([
          asPromise(entries.getAll()),
          asPromise(blobs.getAllKeys()),
          asPromise(blobs.getAll()),
        ]);
        const blobOf = new Map(ids.map((id, number) => [id, files[number]]));
        return records
          .filter(({ image }) => blobOf.has(image.id))
          .sort((one, other) => one.position - other.position)
          .map(({ position: _, image, ...entry }) => {
            const blob = blobOf.get(image.id);
            return { ...entry, image: { ...image, blob, url: URL.createObjectURL(blob) } };
          });
      } catch {
        onChange("failed");
        return [];
      }
    },
  };
}
