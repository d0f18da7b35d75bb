/**
 * `<capacity-view>`: how many devices each class has, how many are held, free or stranded, how many more fit, and the use
 * over time.
 */
import { choice, fill, h, labelled, svg, table, throttled } from "../base/dom.js";
import { amend } from "../base/routes.js";
import { number } from "../base/words.js";
import { RANGES, spanOf } from "../charts/time-slider.js";
import { usageChart } from "../charts/usage-chart.js";

/** @typedef {import("./app-frame.js").Context} Context */
/** @typedef {import("../base/routes.js").Route} Route */
/** @typedef {import("../base/types.js").ClassCapacity} ClassCapacity */

const REFRESH = 2000;
const BUCKETS = 160;
/** The grid of charts, as in the style sheet. */
const CHART = { least: 460, gap: 14, frame: 34 };

export class CapacityView extends HTMLElement {
  /** @type {Context} */
  // @ts-expect-error set by the frame before it is shown
  context;
  #classes = h("section", { "aria-label": "Classes" });
  #charts = h("div", { class: "charts" });
  #range = choice(RANGES, "1d", (value) => amend({ range: value === "1d" ? null : value }));
  #usage = h("section", { "aria-label": "Use over time" }, h("div", { class: "section-head" }, h("h2", null, "Use over time"), lineLegend(), labelled("Span", this.#range)), this.#charts);
  #query = new URLSearchParams();
  /** @type {(() => void)[]} */
  #ends = [];

  connectedCallback() {
    const { fleet } = this.context;
    const reload = throttled(() => this.isConnected && this.#load(), REFRESH);
    fleet.addEventListener("changed", reload);
    fleet.addEventListener("loaded", reload);
    this.#ends = [() => fleet.removeEventListener("changed", reload), () => fleet.removeEventListener("loaded", reload)];
    fill(this, h("div", { class: "view-head" }, h("h1", { tabindex: -1 }, "Capacity")), this.#classes, this.#usage);
    fill(this.#classes, h("p", { class: "quiet" }, "Loading…"));
  }

  disconnectedCallback() {
    this.#ends.forEach((end) => end());
  }

  /** @param {Route} route */
  show(route) {
    this.#query = route.query;
    this.#range.value = route.query.get("range") || "1d";
    this.#load();
  }

  async #load() {
    try {
      const { classes } = /** @type {{classes: ClassCapacity[]}} */ (await this.context.server.get("capacity"));
      if (!this.#classes.contains(document.activeElement)) {
        fill(this.#classes, classesOf(classes));
      }
      await this.#loadUsage();
    } catch (error) {
      fill(this.#classes, h("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error)));
    }
  }

  /** The width that one chart has for its drawing. */
  get #chartWidth() {
    const across = Math.max(1, Math.floor((this.clientWidth + CHART.gap) / (CHART.least + CHART.gap)));
    return (this.clientWidth - (across - 1) * CHART.gap) / across - CHART.frame;
  }

  async #loadUsage() {
    const first = this.context.session.history.since;
    this.#usage.hidden = !first;
    if (!first) {
      return;
    }
    const { server } = this.context;
    const recorded = /** @type {import("../base/types.js").Span} */ (await server.get("history/span"));
    const hasEnded = recorded.gaps.some(([, until]) => until === null);
    const span = spanOf(this.#query.get("range") || "1d", Date.parse(first), recorded.until && !hasEnded ? Date.parse(recorded.until) : Date.now());
    const since = Math.max(span.since, Date.parse(first));
    const usage = /** @type {import("../base/types.js").Usage} */ (
      await server.get("history/usage", { since: new Date(since).toISOString(), until: new Date(span.until).toISOString(), buckets: BUCKETS })
    );
    if (this.#charts.contains(document.activeElement) || this.#charts.querySelector("details[open]")) {
      return;
    }
    fill(this.#charts, Object.entries(usage.classes).map(([name, points]) => usageChart(name, points, usage.gaps, { since, until: span.until }, this.#chartWidth)));
  }
}

function lineLegend() {
  const lines = [
    ["held-line", "held"],
    ["total-line", "total"],
    ["waiting-line", "waiting pods"],
  ];
  return h("p", { class: "legend" }, lines.map(([style, text]) => h("span", { class: "state" }, svg("svg", { width: 22, height: 8, viewBox: "0 0 22 8", "aria-hidden": "true" }, svg("path", { d: "M0 4H22", class: style })), text)));
}

/** @param {ClassCapacity[]} classes */
function classesOf(classes) {
  if (!classes.length) {
    return h("p", { class: "quiet" }, "There are no DeviceClasses.");
  }
  return [
    h(
      "p",
      { class: "legend" },
      [
        ["held", "held"],
        ["free", "free"],
        ["stranded", "stranded: free, but no pod could use them"],
      ].map(([style, text]) => h("span", { class: "state" }, svg("svg", { class: "swatch", viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("rect", { width: 12, height: 12, class: style })), text)),
    ),
    table(
      "Capacity by DeviceClass",
      ["DeviceClass", "", ">Total", ">Held", ">Free", ">Stranded", "Largest partition", ">More pods fit", "Limited by"],
      classes.map((entry) => [
        h("strong", null, entry.class),
        bar(entry),
        number(entry.total),
        number(entry.held),
        number(entry.free),
        entry.stranded ? number(entry.stranded) : h("span", { class: "quiet" }, "0"),
        entry.largest || "–",
        entry.fits === null ? "–" : number(entry.fits),
        h("span", { class: "message" }, entry.limit || "–"),
      ]),
    ),
  ];
}

/** @param {ClassCapacity} entry */
function bar(entry) {
  const total = Math.max(1, entry.total);
  const stranded = Math.min(entry.stranded, entry.free);
  const [held, free, lost] = [entry.held, entry.free - stranded, stranded].map((amount) => (amount / total) * 100);
  const text = `${entry.held} of ${entry.total} held`;
  return svg(
    "svg",
    { class: "capacity-bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": text },
    svg("title", null, text),
    svg("rect", { x: 0, y: 0, width: 100, height: 10, class: "rest" }),
    svg("rect", { x: 0, y: 0, width: held, height: 10, class: "held" }),
    svg("rect", { x: held, y: 0, width: free, height: 10, class: "free" }),
    svg("rect", { x: held + free, y: 0, width: lost, height: 10, class: "stranded" }),
  );
}

customElements.define("capacity-view", CapacityView);
