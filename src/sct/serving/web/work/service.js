// The captioner behind this page, over HTTP. A picture is sent once; afterwards its id stands for it.

/** What went wrong, in a sentence for the person; `again` tells in how many seconds it may go better. */
export class Trouble extends Error {
  constructor(message, status = 0, again = null) {
    super(message);
    this.status = status;
    this.again = again;
  }
}

export function createService({ token = null, fetch = globalThis.fetch.bind(globalThis) } = {}) {
  const authorisation = token ? { Authorization: `Bearer ${token}` } : {};

  async function ask(route, body, headers, signal) {
    let response;
    try {
      response = await fetch(route, {
        method: body ? "POST" : "GET",
        body,
        headers: { ...authorisation, ...headers },
        signal,
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Trouble("The captioner does not answer. Is sct serve still running?");
    }
    if (response.ok) return response.json();
    const told = await response.json().catch(() => ({}));
    const again = Number(response.headers.get("Retry-After"));
    throw new Trouble(
      typeof told.error === "string" ? told.error : `The captioner answered with ${response.status}.`,
      response.status,
      again > 0 ? again : null,
    );
  }

  const sendBytes = (route, { blob }, request, signal) => {
    const form = new FormData();
    form.append("picture", blob, "picture");
    form.append("request", JSON.stringify(request));
    return ask(route, form, {}, signal);
  };

  /** By its id if the server has told one; with its bytes if not, or if the server has forgotten it. */
  async function about(route, picture, request, signal) {
    if (!picture.hash) return sendBytes(route, picture, request, signal);
    const headers = { "Content-Type": "application/json" };
    try {
      return await ask(route, JSON.stringify({ ...request, picture: picture.hash }), headers, signal);
    } catch (error) {
      if (error.status === 404) return sendBytes(route, picture, request, signal);
      throw error;
    }
  }

  return {
    health: () => ask("v1/health"),
    detect: (picture, signal) => about("v1/detect", picture, { limit: 30 }, signal),
    caption: (picture, question, signal) => about("v1/caption", picture, question, signal),
    ways: (picture, question, signal) => about("v1/ways", picture, question, signal),
  };
}
