// HTTP client of the server. An image is uploaded once and referred to by its id afterwards.

/** An error to show to the user; `retryAfter` is in seconds, or null. */
export class ApiError extends Error {
  constructor(message, status = 0, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** The id of an image, by which a proxy chooses a server; null where the browser cannot hash (HTTP, other hosts). */
async function computeId(blob) {
  const digest = await globalThis.crypto?.subtle?.digest("SHA-256", await blob.arrayBuffer());
  return digest ? Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("") : null;
}

export function createApi({ token = null, fetch = globalThis.fetch.bind(globalThis) } = {}) {
  const authorization = token ? { Authorization: `Bearer ${token}` } : {};

  async function send(route, body, headers, signal) {
    let response;
    try {
      response = await fetch(route, {
        method: body ? "POST" : "GET",
        body,
        headers: { ...authorization, ...headers },
        signal,
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server does not respond. Is sct serve still running?");
    }
    if (response.ok) return response.json();
    const content = await response.json().catch(() => ({}));
    const retryAfter = Number(response.headers.get("Retry-After"));
    throw new ApiError(
      typeof content.error === "string" ? content.error : `The server answered with status ${response.status}.`,
      response.status,
      retryAfter > 0 ? retryAfter : null,
    );
  }

  async function sendImage(route, { blob, hash }, request, signal) {
    const form = new FormData();
    form.append("image", blob, "image");
    form.append("request", JSON.stringify(request));
    const id = hash ?? (await computeId(blob));
    return send(route, form, id ? { "X-Image-Id": id } : {}, signal);
  }

  /** Send by image id, or with the image's bytes if the id is unknown here or no longer cached by the server. */
  async function sendAbout(route, image, request, signal) {
    if (!image.hash) return sendImage(route, image, request, signal);
    const headers = { "Content-Type": "application/json", "X-Image-Id": image.hash };
    try {
      return await send(route, JSON.stringify({ ...request, image: image.hash }), headers, signal);
    } catch (error) {
      if (error.status === 404) return sendImage(route, image, request, signal);
      throw error;
    }
  }

  return {
    health: () => send("v1/health"),
    detect: (image, limit, signal) => sendAbout("v1/detect", image, { limit }, signal),
    caption: (image, request, signal) => sendAbout("v1/caption", image, request, signal),
    alternatives: (image, request, signal) => sendAbout("v1/alternatives", image, request, signal),
  };
}
