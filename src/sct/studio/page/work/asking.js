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
  let wanted = null;
  let abort = null;

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

  return {
    forget() {
      abort?.abort();
      wanted = null;
      known.clear();
    },
    async want(key, ask) {
      if (key === wanted) return;
      wanted = key;
      abort?.abort();
      if (key === null) return;
      if (known.has(key)) {
        answered(key, known.get(key));
        return;
      }
      asked(key);
      const mine = new AbortController();
      abort = mine;
      await sleep(pause);
      if (wanted !== key) return;
      try {
        const answer = await patiently(ask, mine.signal);
        known.set(key, answer);
        if (known.size > REMEMBERED) known.delete(known.keys().next().value);
        if (wanted === key) answered(key, answer);
      } catch (error) {
        if (wanted !== key) return;
        wanted = null; // the same may be asked again
        failed(key, error);
      }
    },
  };
}
