/**
 * `<history-view>`: the map at any recorded moment, and who held one device over time.
 */
import { button, fill, h, set, settled } from "../base/dom.js";
import { address, amend } from "../base/routes.js";
import { local, timeElement } from "../base/times.js";
import { counted } from "../base/words.js";
import { ganttChart, scrollToMoment } from "../charts/gantt-chart.js";
import { TimeSlider, spanOf } from "../charts/time-slider.js";
import { DeviceMap } from "../map/device-map.js";
import { counted as countedStates, deviceOf } from "../model/fleet.js";
import { groupsOf } from "../model/groups.js";
import { deviceTable } from "./device-table.js";
import { stateIcon } from "../map/state-icon.js";
import { STATES } from "../model/states.js";

/** @typedef {import("./app-frame.js").Context} Context */
/** @typedef {import("../base/routes.js").Route} Route */
/** @typedef {import("../base/types.js").Moment} Moment */
/** @typedef {import("../base/types.js").Gap} Gap */

const BUCKETS = 200;
const LIVE = 5000;
const REFRESH = 500;
/** What the frame of a chart takes of its width. */
const FRAME = 34;

export class HistoryView extends HTMLElement {
  /** @type {Context} */
  // @ts-expect-error set by the frame before it is shown
  context;
  #slider = new TimeSlider();
  #map = new DeviceMap();
  #summary = h("p", { class: "summary" });
  #counts = h("p", { class: "legend" });
  #asMap = button("Map", () => amend({ view: null }));
  #asTable = button("Table", () => amend({ view: "table" }));
  #table = h("div", { class: "as-table", hidden: true });
  #page = 0;
  #unknown = h("p", { class: "notice", role: "status", hidden: true }, "Nothing was recorded at this moment: no recorder ran. The map shows what was known last.");
  #gantt = h("section", { "aria-label": "Device over time", class: "gantt-section", hidden: true });
  #absent = h("p", { class: "notice", hidden: true }, "There is no history: the server was started without a recorder (dray ui --record FILE, or dray record).");
  #query = new URLSearchParams();
  /** Since when there is history, and until when it is written. @type {{first: number | null, last: number, gaps: Gap[]}} */
  #recorded = { first: null, last: 0, gaps: [] };
  /** @type {[number, number][]} */
  #held = [];
  /** @type {Moment | null} */
  #moment = null;
  #wanted = "";
  /** What the chart of the device shows: it is not replaced under who reads it. */
  #drawn = "";
  #isAsking = false;
  /** @type {(() => void)[]} */
  #ends = [];

  connectedCallback() {
    const { fleet } = this.context;
    const loaded = settled(() => this.#showMap(), REFRESH);
    const changed = settled(() => this.#isNow && this.#load(), REFRESH);
    fleet.addEventListener("loaded", loaded);
    fleet.addEventListener("changed", changed);
    const timer = setInterval(() => this.#isNow && document.visibilityState === "visible" && this.#load(), LIVE);
    this.#ends = [() => fleet.removeEventListener("loaded", loaded), () => fleet.removeEventListener("changed", changed), () => clearInterval(timer)];
    this.#slider.addEventListener("moment", (event) => {
      const at = /** @type {CustomEvent<number | null>} */ (event).detail;
      amend({ at: at === null ? null : new Date(Math.min(at, Date.now())).toISOString() });
    });
    this.#slider.addEventListener("span", (event) => amend({ range: /** @type {CustomEvent<string>} */ (event).detail }));
    fill(this, h("div", { class: "view-head" }, h("h1", { tabindex: -1 }, "History"), this.#summary), this.#absent, this.#slider, this.#unknown, this.#gantt, h("div", { class: "section-head" }, this.#counts, h("div", { class: "segmented", role: "group", "aria-label": "Show as" }, this.#asMap, this.#asTable)), this.#map, this.#table);
  }

  disconnectedCallback() {
    this.#ends.forEach((end) => end());
  }

  /** @param {Route} route */
  show(route) {
    this.#query = route.query;
    this.#load();
  }

  get #isNow() {
    return !this.#query.get("at");
  }

  get #at() {
    const at = Date.parse(this.#query.get("at") ?? "");
    return Number.isNaN(at) ? Date.now() : at;
  }

  get #range() {
    return this.#query.get("range") || "1h";
  }

  /** The span of the slider: it ends now, or later than the moment if that is older than the span. */
  get #span() {
    const span = spanOf(this.#range, this.#recorded.first, Date.now());
    if (this.#at >= span.since) {
      return span;
    }
    const half = (span.until - span.since) / 2;
    return { since: this.#at - half, until: this.#at + half };
  }

  /** Loads one moment after the other: the newest wish wins, and the server is asked one at a time. */
  async #load() {
    this.#wanted = JSON.stringify([this.#query.get("at"), this.#query.get("device"), this.#range]);
    if (this.#isAsking) {
      return;
    }
    this.#isAsking = true;
    let goal = "";
    while (goal !== this.#wanted && this.isConnected) {
      goal = this.#wanted;
      await this.#loadAll(() => goal === this.#wanted);
    }
    this.#isAsking = false;
  }

  /** @param {() => boolean} isWanted whether nothing else is wanted meanwhile */
  async #loadAll(isWanted) {
    try {
      await this.#loadMoment();
      if (isWanted()) {
        await this.#loadUsage();
      }
    } catch (error) {
      this.#summary.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  async #loadMoment() {
    const { server } = this.context;
    if (this.#recorded.first === null || this.#isNow) {
      const span = /** @type {import("../base/types.js").Span} */ (await server.get("history/span"));
      this.#recorded = { first: span.since ? Date.parse(span.since) : null, last: span.until ? Date.parse(span.until) : Date.now(), gaps: span.gaps };
    }
    this.#absent.hidden = this.#recorded.first !== null;
    if (this.#recorded.first === null) {
      return;
    }
    const at = this.#at;
    this.#showSlider();
    this.#moment = await server.get("history/at", { time: new Date(at).toISOString() });
    this.#showMap();
    await this.#showDevice();
  }

  async #loadUsage() {
    if (this.#recorded.first === null) {
      return;
    }
    const { since, until } = this.#span;
    const usage = /** @type {import("../base/types.js").Usage} */ (
      await this.context.server.get("history/usage", { since: new Date(Math.max(since, this.#recorded.first)).toISOString(), until: new Date(Math.min(until, this.#recorded.last)).toISOString(), buckets: BUCKETS })
    );
    /** @type {Map<number, [held: number, total: number]>} */
    const sums = new Map();
    for (const points of Object.values(usage.classes)) {
      for (const point of points) {
        const time = Date.parse(point.time);
        const [held, total] = sums.get(time) ?? [0, 0];
        sums.set(time, [held + point.held, total + point.total]);
      }
    }
    this.#held = [...sums].sort(([one], [other]) => one - other).map(([time, [held, total]]) => [time, total ? held / total : 0]);
    this.#showSlider();
  }

  #showSlider() {
    this.#slider.show({ ...this.#span, at: this.#at, isNow: this.#isNow, range: this.#range, gaps: this.#recorded.gaps, held: this.#held });
  }

  #showMap() {
    const moment = this.#moment;
    const { fleet } = this.context;
    if (!moment || !fleet.isLoaded) {
      return;
    }
    const past = this.#isNow ? fleet : fleet.at(moment);
    // What happens now is written after some seconds, if a recorder runs.
    const isComing = this.#at > this.#recorded.last && !this.#recorded.gaps.some(isOpen);
    this.#unknown.hidden = moment.known || this.#isNow || isComing;
    fill(this.#summary, this.#isNow ? "now" : ["at ", timeElement(moment.time)]);
    const counts = countedStates(past.cells.values());
    fill(this.#counts, STATES.filter((state) => counts.get(state)).map((state) => h("span", { class: "state" }, stateIcon(state), `${counts.get(state)} ${state}`)));
    const device = this.#query.get("device");
    const isTable = this.#query.get("view") === "table";
    set(this.#asMap, "aria-pressed", String(!isTable));
    set(this.#asTable, "aria-pressed", String(isTable));
    this.#map.hidden = isTable;
    this.#table.hidden = !isTable;
    if (isTable) {
      this.#fillTable(past, moment.time);
      return;
    }
    this.#map.show({
      fleet: past,
      groups: () => groupsOf(past, this.#query.get("group") || "node", null),
      size: /** @type {import("../map/layout.js").Size | ""} */ (this.#query.get("size") ?? ""),
      isEmphasised: null,
      selected: device ?? "",
      link: (key) => address("history", [], amended(this.#query, { device: key === device ? null : key })),
    });
  }

  /**
   * @param {import("../model/fleet.js").Fleet} past
   * @param {string} time
   */
  #fillTable(past, time) {
    const groups = groupsOf(past, this.#query.get("group") || "node", null);
    this.#table.dataset.time = time;
    fill(
      this.#table,
      deviceTable(past, groups, this.#page, (page) => {
        this.#page = page;
        this.#fillTable(past, time);
      }),
    );
  }

  async #showDevice() {
    const key = this.#query.get("device");
    this.#gantt.hidden = !key;
    if (!key) {
      return;
    }
    const { since, until } = this.#span;
    const history = await this.context.server.get("history/device", { key, since: new Date(since).toISOString(), until: new Date(until).toISOString() });
    const title = `${deviceOf(key)} ${this.context.fleet.cells.get(key)?.n ?? ""}`.trim();
    const holders = history.periods.length;
    const isSame = this.#drawn === this.#wanted;
    if (isSame && (this.#gantt.contains(document.activeElement) || this.#gantt.querySelector("details[open]"))) {
      return;
    }
    const scrolled = isSame ? this.#gantt.querySelector(".scroll-x")?.scrollLeft : undefined;
    this.#drawn = this.#wanted;
    fill(
      this.#gantt,
      h(
        "div",
        { class: "section-head" },
        h("h2", null, title),
        h("span", { class: "quiet" }, `${counted(holders, "period")} from ${local(since)} to ${local(until)}`),
        h("a", { href: address("device", [key]) }, "Page of the device"),
        h("a", { href: address("history", [], amended(this.#query, { device: null })) }, "Close"),
      ),
      ganttChart(`Holders of ${title}`, history, { since, until }, this.#at, this.clientWidth - FRAME, (time) => address("history", [], amended(this.#query, { at: new Date(time).toISOString() }))),
    );
    scrollToMoment(this.#gantt, scrolled);
  }
}

/** @param {Gap} gap */
function isOpen([, until]) {
  return until === null;
}

/**
 * @param {URLSearchParams} query
 * @param {Record<string, string | null>} changes
 */
function amended(query, changes) {
  const changed = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) {
      changed.delete(name);
    } else {
      changed.set(name, value);
    }
  }
  return changed;
}

customElements.define("history-view", HistoryView);
