/**
 * `<login-view>`: asks for a token, or for the key of a new link.
 */
import { fill, h, labelled, sentence } from "../base/dom.js";
import { ServerError } from "../model/server.js";

/** @typedef {import("../model/server.js").Server} Server */
/** @typedef {import("../base/types.js").Session} Session */

export class LoginView extends HTMLElement {
  /**
   * @param {Server} server
   * @param {string} problem why the user has to sign in again; empty if that is not known
   * @param {(session: Session) => void} done
   */
  show(server, problem, done) {
    const field = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true, spellcheck: "false", autofocus: true });
    const alert = h("p", { class: "problem", role: "alert", hidden: !problem }, sentence(problem));
    const submit = h("button", { type: "submit", class: "main-action" }, "Sign in");
    const form = h("form", { class: "login" }, labelled("Token, or the link", field), submit, alert);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      submit.disabled = true;
      try {
        const value = field.value.trim();
        await server.post("login", given(value));
        done(await server.get("session"));
      } catch (error) {
        fill(alert, sentence(error instanceof ServerError ? error.words : String(error)));
        alert.hidden = false;
        submit.disabled = false;
        field.focus();
      }
    });
    fill(
      this,
      h(
        "main",
        { id: "main", class: "alone" },
        h("h1", null, h("span", { class: "brand" }, "dray"), " Sign in"),
        h("p", null, "Open the link that ", h("code", null, "dray up"), " or ", h("code", null, "dray ui"), " printed, or enter your own token for this cluster. You see what that token may read."),
        form,
        h("p", { class: "quiet" }, "A link works once and for some minutes. ", h("code", null, "dray up"), " keeps the next one in the file ", h("code", null, "dashboard-link"), " of its data directory; ", h("code", null, "dray ui"), " prints one when it starts."),
      ),
    );
  }
}

/**
 * What to log in with: a link that was pasted has a key.
 *
 * @param {string} value
 */
function given(value) {
  const at = value.indexOf("#key=");
  return at < 0 ? { token: value } : { key: value.slice(at + "#key=".length) };
}

customElements.define("login-view", LoginView);
