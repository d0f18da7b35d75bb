/**
 * `<explanation-panel>`: why one pod or claim waits: the verdict and the fix first, then the checks and the funnel.
 */
import { fill, h, sentence } from "../base/dom.js";
import { address } from "../base/routes.js";
import { funnelBars } from "../charts/funnel-bars.js";
import { ServerError, isAborted, path } from "../model/server.js";
import { command } from "./command-line.js";

/** @typedef {import("../model/server.js").Server} Server */
/** @typedef {import("../base/types.js").Explanation} Explanation */

const VERDICTS = new Map([
  [true, { sign: "✓", word: "passes", style: "passed" }],
  [false, { sign: "✗", word: "fails", style: "failed" }],
  [null, { sign: "·", word: "not reached", style: "open" }],
]);

export class ExplanationPanel extends HTMLElement {
  /** @type {AbortController | null} */
  #request = null;
  #shown = "";

  /**
   * @param {Server} server
   * @param {string} id pod/NAMESPACE/NAME or claim/NAMESPACE/NAME
   * @param {boolean} [isPart] whether it is part of the page of that object
   */
  async explain(server, id, isPart = false) {
    this.#request?.abort();
    this.#request = new AbortController();
    if (id !== this.#shown) {
      fill(this, h("p", { class: "quiet" }, "Loading…"));
    }
    try {
      const explanation = /** @type {Explanation} */ (await server.get(`explain/${path(...id.split("/"))}`, {}, this.#request.signal));
      this.#shown = id;
      this.#fill(id, explanation, isPart);
    } catch (error) {
      if (!isAborted(error)) {
        this.#shown = "";
        const text = error instanceof ServerError && error.status === 404 ? "It is gone." : error instanceof Error ? error.message : String(error);
        fill(this, h("p", { class: "problem", role: "alert" }, text));
      }
    }
  }

  /**
   * @param {string} id
   * @param {Explanation} explanation
   * @param {boolean} isPart
   */
  #fill(id, explanation, isPart) {
    const [kind, namespace, name] = id.split("/");
    const text = h("details", { class: "twin" }, h("summary", null, "Text of dray explain"), h("pre", { tabindex: 0 }, explanation.text));
    fill(
      this,
      !isPart && h("h2", null, h("a", { href: address(kind, [namespace, name]) }, `${kind} ${namespace}/${name}`)),
      h("p", { class: "verdict" }, sentence(explanation.headline)),
      explanation.fix && h("div", { class: "fix" }, h("p", null, h("strong", null, "Fix "), sentence(explanation.fix.text)), explanation.fix.command && command(explanation.fix.command)),
      explanation.checks.length > 0 &&
        h(
          "ol",
          { class: "checks", "aria-label": "Checks" },
          explanation.checks.map((check) => {
            const verdict = VERDICTS.get(check.passed) ?? { sign: "·", word: "not reached", style: "open" };
            return h("li", { class: verdict.style }, h("span", { class: "sign", "aria-hidden": "true" }, verdict.sign), sentence(stageOf(check.text, explanation.headline)), h("span", { class: "unseen" }, `: ${verdict.word}`));
          }),
        ),
      explanation.funnel.length > 0 && funnelBars(explanation.funnel),
      explanation.text && text,
    );
  }
}

/**
 * A stage with what is wrong with it, unless the headline has said that.
 *
 * @param {string} text
 * @param {string} headline
 */
function stageOf(text, headline) {
  const at = text.indexOf(": ");
  return at >= 0 && headline.endsWith(text.slice(at + 2)) ? text.slice(0, at) : text;
}

customElements.define("explanation-panel", ExplanationPanel);
