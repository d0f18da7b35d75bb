/**
 * `<waiting-view>`: which pods and claims wait, why, and what would help. `#/waiting/pod/NAMESPACE/NAME` explains one.
 */
import { fill, h, labelled, sentence, settled, throttled } from "../base/dom.js";
import { address, amend } from "../base/routes.js";
import { ageElement } from "../base/times.js";
import { byName, counted, number } from "../base/words.js";
import { ExplanationPanel } from "./explanation-panel.js";

/** @typedef {import("./app-frame.js").Context} Context */
/** @typedef {import("../base/routes.js").Route} Route */
/** @typedef {import("../base/types.js").Waiting} Waiting */

const LINES = 200;
const TYPING = 250;
const REFRESH = 300;

export class WaitingView extends HTMLElement {
  /** @type {Context} */
  // @ts-expect-error set by the frame before it is shown
  context;
  #summary = h("p", { class: "summary" });
  #list = h("ul", { class: "waiting-list" });
  #search = h("input", { type: "search", placeholder: "name or reason", spellcheck: "false", autocomplete: "off" });
  #reasons = h("div", { class: "chips", role: "group", "aria-label": "Show only this reason" });
  #panel = new ExplanationPanel();
  #side = h("section", { class: "waiting-side", "aria-label": "Explanation" });
  /** @type {Route} */
  #route = { view: "waiting", path: [], query: new URLSearchParams() };
  #explained = "";
  /** @type {(() => void)[]} */
  #ends = [];

  connectedCallback() {
    const { fleet, server } = this.context;
    const refresh = throttled(() => this.#refresh(), REFRESH);
    const loaded = () => this.#refresh();
    const changed = (/** @type {Event} */ event) => {
      const { detail } = /** @type {CustomEvent<import("../model/fleet.js").Touched>} */ (event);
      if (detail.waiting.has(this.#explained)) {
        this.#panel.explain(server, this.#explained);
      }
      if (detail.waiting.size) {
        refresh();
      }
    };
    fleet.addEventListener("loaded", loaded);
    fleet.addEventListener("changed", changed);
    this.#ends = [() => fleet.removeEventListener("loaded", loaded), () => fleet.removeEventListener("changed", changed)];
    this.#search.addEventListener("input", settled(() => amend({ q: this.#search.value.trim() || null }), TYPING));
    fill(
      this,
      h("div", { class: "view-head" }, h("h1", { tabindex: -1 }, "Waiting"), this.#summary),
      h("div", { class: "tools" }, labelled("Search", this.#search), this.#reasons),
      h("div", { class: "waiting-columns" }, this.#list, this.#side),
    );
  }

  disconnectedCallback() {
    this.#ends.forEach((end) => end());
  }

  /** @param {Route} route */
  show(route) {
    this.#route = route;
    if (document.activeElement !== this.#search) {
      this.#search.value = route.query.get("q") ?? "";
    }
    const id = route.path.length === 3 ? route.path.join("/") : "";
    this.#explained = id;
    this.classList.toggle("has-side", Boolean(id));
    if (id) {
      fill(this.#side, this.#panel);
      this.#panel.explain(this.context.server, id);
    } else {
      fill(this.#side, h("p", { class: "quiet empty" }, "Choose a pod or claim to see which check fails, and what would help."));
    }
    this.#refresh();
  }

  #refresh() {
    const { fleet } = this.context;
    const wanted = (this.#route.query.get("q") ?? "").toLowerCase();
    const reason = this.#route.query.get("reason") ?? "";
    const all = [...fleet.waiting].sort(([one, a], [other, b]) => (a.since || "").localeCompare(b.since || "") || byName(one, other));
    const found = all.filter(([, waiting]) => (!reason || waiting.short === reason) && (!wanted || `${waiting.ns}/${waiting.name} ${waiting.reason}`.toLowerCase().includes(wanted)));
    this.#summary.textContent = !fleet.isLoaded ? "Loading…" : all.length === 0 ? "Nothing waits." : `${counted(all.length, "object")} ${all.length === 1 ? "waits" : "wait"}${found.length === all.length ? "" : `, ${found.length} shown`}`;
    this.#fillReasons(all.map(([, waiting]) => waiting.short), reason);
    const focused = document.activeElement?.closest("[data-id]")?.getAttribute("data-id");
    fill(
      this.#list,
      found.slice(0, LINES).map(([id, waiting]) => this.#line(id, waiting)),
      found.length > LINES && h("li", { class: "quiet" }, `and ${number(found.length - LINES)} more: search to narrow the list`),
    );
    if (focused) {
      const line = [...this.#list.querySelectorAll("a")].find((link) => link.dataset.id === focused);
      line?.focus({ preventScroll: true });
    }
  }

  /**
   * @param {string[]} reasons
   * @param {string} chosen
   */
  #fillReasons(reasons, chosen) {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const reason of reasons.filter(Boolean)) {
      counts.set(reason, (counts.get(reason) ?? 0) + 1);
    }
    const entries = [...counts].sort(([, one], [, other]) => other - one).slice(0, 8);
    fill(
      this.#reasons,
      entries.length > 1 || chosen
        ? entries.map(([reason, amount]) =>
            h("button", { type: "button", class: "chip", "aria-pressed": String(reason === chosen), onclick: () => amend({ reason: reason === chosen ? null : reason }) }, h("strong", null, amount), reason),
          )
        : null,
    );
  }

  /**
   * @param {string} id
   * @param {Waiting} waiting
   */
  #line(id, waiting) {
    const path = [id.slice(0, id.indexOf("/")), waiting.ns, waiting.name];
    return h(
      "li",
      null,
      h(
        "a",
        { href: address("waiting", path, this.#route.query), "data-id": id, "aria-current": id === this.#explained ? "true" : null },
        h("span", { class: "waiting-name" }, h("span", { class: "kind" }, waiting.kind === "ResourceClaim" ? "claim" : waiting.kind.toLowerCase()), h("strong", null, waiting.name), h("span", { class: "quiet" }, ` ${waiting.ns}`)),
        h("span", { class: "waiting-age" }, ageElement(waiting.since)),
        h("span", { class: "waiting-reason" }, sentence(shortReason(waiting))),
        waiting.fix && h("span", { class: "waiting-fix" }, sentence(waiting.fix)),
      ),
    );
  }
}

/**
 * The reason without the name of what waits, which stands above it.
 *
 * @param {Waiting} waiting
 */
function shortReason(waiting) {
  const at = waiting.reason.indexOf(`${waiting.ns}/${waiting.name} waits: `);
  return at < 0 ? waiting.reason : waiting.reason.slice(at + `${waiting.ns}/${waiting.name} waits: `.length);
}

customElements.define("waiting-view", WaitingView);
