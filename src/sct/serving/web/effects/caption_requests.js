// Debounced caption requests: only the latest one counts, and results are cached.

const CACHE_SIZE = 60;
const MAX_ATTEMPTS = 8;

const pause = (milliseconds) => new Promise((wake) => setTimeout(wake, milliseconds));

/** Send, and wait and retry while the server answers 429. */
export async function sendWithRetry(send, signal = null, sleep = pause) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await send(signal);
    } catch (error) {
      if (error.status !== 429 || attempt === MAX_ATTEMPTS) throw error;
      await sleep(1000 * Math.min(error.retryAfter ?? 1, 5));
      if (signal?.aborted) throw error;
    }
  }
}

/**
 * `request(key, send)` calls `send(signal)` after `delay` milliseconds without another request, and `onResult(key,
 * result)` unless a newer request was made. Cached results (undo, redo) are delivered at once.
 */
export function createCaptionRequests({ delay, onRequest, onResult, onError, sleep = pause }) {
  const cache = new Map();
  let current = { key: null, abort: new AbortController() };

  function replace(key) {
    current.abort.abort();
    current = { key, abort: new AbortController() };
    return current;
  }

  function addToCache(key, result) {
    cache.set(key, result);
    if (cache.size > CACHE_SIZE) cache.delete(cache.keys().next().value);
  }

  return {
    /** Forget all results but one, that of the image which is opened. */
    clear(key = null, result = null) {
      replace(null);
      cache.clear();
      if (key !== null) addToCache(key, result);
    },
    async request(key, send) {
      if (key === current.key) return;
      const own = replace(key);
      if (key === null) return;
      if (cache.has(key)) {
        onResult(key, cache.get(key));
        return;
      }
      onRequest(key);
      await sleep(delay);
      if (own !== current) return;
      try {
        const result = await sendWithRetry(send, own.abort.signal, sleep);
        if (own !== current) return;
        addToCache(key, result);
        onResult(key, result);
      } catch (error) {
        if (own !== current) return; // a newer request for the same key reports its own failure
        replace(null);
        onError(key, error);
      }
    },
  };
}
