/**
 * Sends requests to the server that served the page.
 */

export class ServerError extends Error {
  /**
   * @param {number} status 0 if the server was not reached
   * @param {string} message
   * @param {Record<string, unknown>} [details]
   */
  constructor(status, message, details = {}) {
    super(message);
    this.status = status;
    this.details = details;
  }

  get advice() {
    return typeof this.details.advice === "string" ? this.details.advice : "";
  }

  /** The message and what to do, as sentences. */
  get words() {
    const text = `${this.message.charAt(0).toUpperCase()}${this.message.slice(1)}`;
    return [text, this.advice].filter(Boolean).map((part) => (/[.?!]$/.test(part) ? part : `${part}.`)).join(" ");
  }
}

/** @typedef {Record<string, string | number | null | undefined>} Query */

export class Server extends EventTarget {
  /** @type {string} */
  csrf = "";

  /**
   * @param {string} path
   * @param {Query} [query]
   */
  address(path, query = {}) {
    const found = new URL(`api/${path}`, new URL(".", location.href));
    for (const [name, value] of Object.entries(query)) {
      if (value !== null && value !== undefined) {
        found.searchParams.set(name, String(value));
      }
    }
    return found;
  }

  /**
   * @param {string} path
   * @param {Query} [query]
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  get(path, query, signal) {
    return this.#send(this.address(path, query), { signal });
  }

  /**
   * @param {string} path
   * @param {unknown} body
   * @returns {Promise<any>}
   */
  post(path, body) {
    return this.#send(this.address(path), {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Dray-Csrf": this.csrf },
      body: JSON.stringify(body),
    });
  }

  /**
   * @param {URL} address
   * @param {RequestInit} options
   */
  async #send(address, options) {
    const response = await reached(fetch(address, { ...options, credentials: "same-origin", cache: "no-store" }));
    const document = await response.json().catch(() => null);
    if (response.ok) {
      return document;
    }
    const details = document && typeof document === "object" ? document : {};
    const error = new ServerError(response.status, String(details.message ?? `the server answered ${response.status}`), details);
    if (response.status === 401) {
      this.dispatchEvent(new CustomEvent("unauthorised", { detail: error }));
    }
    throw error;
  }
}

/** @param {Promise<Response>} response */
async function reached(response) {
  try {
    return await response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") {
      throw error;
    }
    throw new ServerError(0, "The server cannot be reached.");
  }
}

/** @param {unknown} error */
export function isAborted(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * The path of a namespaced object below a prefix.
 *
 * @param {...string} parts
 */
export function path(...parts) {
  return parts.map(encodeURIComponent).join("/");
}
