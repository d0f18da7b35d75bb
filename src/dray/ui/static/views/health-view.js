/**
 * `<health-view>`: the components, the findings of `dray doctor` with their fixes, and versions.
 */
import { fill, h, sentence } from "../base/dom.js";
import { counted } from "../base/words.js";
import { command } from "./command-line.js";

/** @typedef {import("./app-frame.js").Context} Context */
/** @typedef {import("../base/types.js").Health} Health */

const POLL = 10_000;

export class HealthView extends HTMLElement {
  /** @type {Context} */
  // @ts-expect-error set by the frame before it is shown
  context;
  #summary = h("p", { class: "summary" });
  #body = h("div", { class: "health" });
  #timer = 0;
  #last = "";

  connectedCallback() {
    fill(this, h("div", { class: "view-head" }, h("h1", { tabindex: -1 }, "Health"), this.#summary), this.#body);
    this.#timer = setInterval(() => document.visibilityState === "visible" && this.#load(), POLL);
  }

  disconnectedCallback() {
    clearInterval(this.#timer);
  }

  show() {
    this.#load();
  }

  async #load() {
    try {
      const health = /** @type {Health} */ (await this.context.server.get("health"));
      const text = JSON.stringify(health);
      if (text !== this.#last) {
        this.#last = text;
        this.#fill(health);
      }
    } catch (error) {
      this.#last = "";
      fill(this.#body, h("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error)));
    }
  }

  /** @param {Health} health */
  #fill(health) {
    const { fleet } = this.context;
    this.#summary.textContent = health.findings.length ? counted(health.findings.length, "finding") : "No findings.";
    fill(
      this.#body,
      h(
        "section",
        { "aria-label": "Findings" },
        h("h2", null, "Findings"),
        health.findings.length
          ? h(
              "ul",
              { class: "findings" },
              health.findings.map((finding) => h("li", { class: severity(finding.severity) }, h("span", { class: "severity" }, finding.severity), h("p", null, sentence(finding.text)), finding.fix && h("p", { class: "waiting-fix" }, sentence(finding.fix)), finding.command && command(finding.command))),
            )
          : h("p", { class: "quiet" }, "dray doctor finds nothing wrong."),
      ),
      h(
        "section",
        { "aria-label": "Components" },
        h("h2", null, "Components"),
        h(
          "ul",
          { class: "components" },
          health.components.map((component) => h("li", { class: component.ok ? "passed" : "failed" }, h("span", { class: "sign", "aria-hidden": "true" }, component.ok ? "✓" : "✗"), h("strong", null, component.name), h("span", null, component.text || (component.ok ? "ok" : "failing")))),
        ),
      ),
      fleet.unreadable.length > 0 && h("section", { "aria-label": "Not readable" }, h("h2", null, "Not readable"), h("ul", null, fleet.unreadable.map((text) => h("li", null, text)))),
      h("section", { "aria-label": "Versions" }, h("h2", null, "Versions"), h("dl", { class: "facts" }, Object.entries(health.versions).map(([name, version]) => h("div", null, h("dt", null, name), h("dd", null, version))))),
    );
  }
}

/** @param {string} word */
function severity(word) {
  return /error|critical|fail/i.test(word) ? "failed" : /warn/i.test(word) ? "warned" : "open";
}

customElements.define("health-view", HealthView);
