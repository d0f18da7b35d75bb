/**
 * Starts the page: signs in, receives the state, and shows the view that the address names.
 */
import { fill, h } from "./base/dom.js";
import { Server, ServerError } from "./model/server.js";
import { AppFrame } from "./views/app-frame.js";
import { LoginView } from "./views/login-view.js";

const server = new Server();
const page = /** @type {HTMLElement} */ (document.getElementById("page"));
/** @type {AppFrame | null} */
let frame = null;

async function start() {
  const key = keyOfLink();
  const refusal = key ? await refused(key) : null;
  try {
    // A link that was used already may be opened again where it was used.
    open(await server.get("session"));
  } catch (error) {
    fail(refusal ?? error, refusal !== null);
  }
}

/**
 * Logs in with a key.
 *
 * @param {string} key
 * @returns {Promise<unknown>} why that failed; null if it did not
 */
async function refused(key) {
  try {
    await server.post("login", { key });
    return null;
  } catch (error) {
    return error;
  }
}

/** Takes the one-time key out of the address, so that it stays neither there nor in the browser's history. */
function keyOfLink() {
  const found = /^#key=(.+)$/.exec(location.hash);
  if (!found) {
    return null;
  }
  history.replaceState(null, "", `${location.pathname}#/`);
  try {
    return decodeURIComponent(found[1]);
  } catch {
    return found[1];
  }
}

/** @param {import("./base/types.js").Session} session */
function open(session) {
  server.csrf = session.csrf;
  frame = new AppFrame();
  frame.start(server, session);
  fill(page, frame);
}

/**
 * @param {unknown} error
 * @param {boolean} usedKey
 */
function fail(error, usedKey) {
  if (error instanceof ServerError && (error.status === 401 || usedKey)) {
    login(error.status === 401 && !usedKey ? "" : error.words);
    return;
  }
  const text = error instanceof Error ? error.message : String(error);
  fill(page, h("main", { id: "main", class: "alone" }, h("h1", null, "The dashboard cannot be shown"), h("p", { role: "alert" }, text), h("button", { type: "button", onclick: () => location.reload() }, "Try again")));
}

/** @param {string} problem */
function login(problem) {
  frame?.stop();
  frame = null;
  const view = new LoginView();
  view.show(server, problem, open);
  fill(page, view);
  document.title = "Sign in · dray";
}

server.addEventListener("unauthorised", () => {
  if (frame) {
    login("The session has ended.");
  }
});
addEventListener("hashchange", () => {
  if (!frame && location.hash.startsWith("#key=")) {
    start();
  }
});
start();
