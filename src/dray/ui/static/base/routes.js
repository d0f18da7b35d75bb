/**
 * Reads and writes the address. All that a view shows is in its fragment, so a link leads to the same view.
 */

/** @typedef {import("./types.js").Target} Target */
/** @typedef {{view: string, path: string[], query: URLSearchParams}} Route */

const FIRST = "devices";

/** @param {string} fragment */
export function parse(fragment) {
  const [path, query] = split(fragment.replace(/^#\/?/, ""));
  const [view, ...rest] = path.split("/").map(decoded);
  return { view: view || FIRST, path: rest, query: new URLSearchParams(query) };
}

/** @param {string} text */
function split(text) {
  const at = text.indexOf("?");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @returns {Route} */
export function current() {
  return parse(location.hash);
}

/**
 * The address of a view.
 *
 * @param {string} view
 * @param {string[]} [path]
 * @param {Record<string, string | null | undefined> | URLSearchParams} [query]
 */
export function address(view, path = [], query = {}) {
  const entries = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const kept = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(/** @type {[string, string][]} */ (kept)).toString();
  return `#/${[view, ...path].map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

/** @param {string} key */
export function ofDevice(key) {
  return address("device", [key]);
}

/** @param {string} name NAMESPACE/NAME */
export function ofPod(name) {
  return address("pod", pair(name));
}

/** @param {string} name NAMESPACE/NAME */
export function ofClaim(name) {
  return address("claim", pair(name));
}

/** @param {string} name */
export function ofNode(name) {
  return address("node", [name]);
}

/** @param {string} name */
function pair(name) {
  const at = name.indexOf("/");
  return [name.slice(0, at), name.slice(at + 1)];
}

/**
 * The address of an object that the server names; null if the page has no view of its kind.
 *
 * @param {Target | undefined} target
 */
export function ofTarget(target) {
  switch (target?.kind.toLowerCase()) {
    case "device":
      return target.key ? ofDevice(target.key) : null;
    case "node":
      return target.name ? ofNode(target.name) : null;
    case "pod":
      return address("pod", [target.ns ?? "", target.name ?? ""]);
    case "claim":
    case "resourceclaim":
      return address("claim", [target.ns ?? "", target.name ?? ""]);
    default:
      return null;
  }
}

/**
 * Changes the query of the address without an entry in the browser's history, unless asked for one.
 *
 * @param {Record<string, string | null>} changes
 * @param {boolean} [remember]
 */
export function amend(changes, remember = false) {
  const { view, path, query } = current();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") {
      query.delete(name);
    } else {
      query.set(name, value);
    }
  }
  const wanted = address(view, path, query);
  if (wanted === location.hash) {
    return;
  }
  if (remember) {
    location.hash = wanted;
  } else {
    history.replaceState(history.state, "", wanted);
    window.dispatchEvent(new Event("hashchange"));
  }
}
