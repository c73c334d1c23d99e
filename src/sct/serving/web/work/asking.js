// Ask for what is wanted last: wait until a person pauses, forget answers to questions that are no longer asked.

const REMEMBERED = 60;
const MOST_PATIENCE = 8;

/**
 * `want(key, ask)` is called whenever something is wanted. `ask(signal)` is called once wants have stood still for
 * `pause` milliseconds; `answered(key, answer)` hears of it only if `key` is still wanted. Answers are kept, so that
 * what was asked before (undo, redo) is answered at once.
 */
export function createAsking({
  pause,
  asked,
  answered,
  failed,
  sleep = (ms) => new Promise((wake) => setTimeout(wake, ms)),
}) {
  const known = new Map();
  let current = { key: null, abort: new AbortController() };

  function change(key) {
    current.abort.abort();
    current = { key, abort: new AbortController() };
    return current;
  }

  async function patiently(ask, signal) {
    for (let turn = 1; ; turn += 1) {
      try {
        return await ask(signal);
      } catch (error) {
        if (error.status !== 429 || turn === MOST_PATIENCE) throw error;
        await sleep(1000 * Math.min(error.again ?? 1, 5));
        if (signal.aborted) throw error;
      }
    }
  }

  function remember(key, answer) {
    known.set(key, answer);
    if (known.size > REMEMBERED) known.delete(known.keys().next().value);
  }

  return {
    forget() {
      change(null);
      known.clear();
    },
    async want(key, ask) {
      if (key === current.key) return;
      const mine = change(key);
      if (key === null) return;
      if (known.has(key)) {
        answered(key, known.get(key));
        return;
      }
      asked(key);
      await sleep(pause);
      if (mine !== current) return;
      try {
        const answer = await patiently(ask, mine.abort.signal);
        if (mine !== current) return;
        remember(key, answer);
        answered(key, answer);
      } catch (error) {
        if (mine !== current) return; // the same may have been asked again since: its own failure counts
        change(null);
        failed(key, error);
      }
    },
  };
}
