/**
 * `<devices-view>`: the map of all devices, and the same as a table.
 */
import { button, choice, fill, h, labelled, offer, set, settled, throttled } from "../base/dom.js";
import { answer } from "../base/announcements.js";
import { amend } from "../base/routes.js";
import { counted, number } from "../base/words.js";
import { captionOf, download, mapAsSvg } from "../map/export.js";
import { DeviceMap } from "../map/device-map.js";
import { stateIcon } from "../map/state-icon.js";
import { claimsOf, counted as countedStates, marked, marksOf, podsOf } from "../model/fleet.js";
import { groupsOf, ways } from "../model/groups.js";
import { ServerError, isAborted } from "../model/server.js";
import { MARKS, MEANING, STATES } from "../model/states.js";
import { deviceTable } from "./device-table.js";
import { expressionError } from "./expression-error.js";

/** @typedef {import("./app-frame.js").Context} Context */
/** @typedef {import("../base/routes.js").Route} Route */
/** @typedef {import("../base/types.js").Cell} Cell */

/** @type {[string, string][]} */
const SIZES = [
  ["", "Automatic"],
  ["large", "Large"],
  ["medium", "Medium"],
  ["small", "Small"],
  ["tiny", "Tiny"],
];
const TYPING = 350;
const REFRESH = 400;

export class DevicesView extends HTMLElement {
  /** @type {Context} */
  // @ts-expect-error set by the frame before it is shown
  context;
  #query = new URLSearchParams();
  #map = new DeviceMap();
  #table = h("div", { class: "as-table", hidden: true });
  #title = h("h1", { tabindex: -1 }, "Devices");
  #summary = h("p", { class: "summary" });
  #chips = h("div", { class: "chips", role: "group", "aria-label": "Show only these states" });
  #filter = h("input", { type: "text", class: "mono", placeholder: 'device.driver == "gpu.nvidia.com"', spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-describedby": "filter-problem" });
  #problem = h("div", { id: "filter-problem", class: "filter-problem", hidden: true });
  #holder = h("input", { type: "search", placeholder: "namespace/name", spellcheck: "false", autocomplete: "off" });
  #group = choice([["node", "Node"]], "node", (value) => amend({ group: value === "node" ? null : value }));
  #size = choice(SIZES, "", (value) => amend({ size: value || null }));
  #only = h("input", { type: "checkbox" });
  #onlyLabel = h("label", { class: "check" }, this.#only, "Only matches");
  #asMap = button("Map", () => amend({ view: null }));
  #asTable = button("Table", () => amend({ view: "table" }));
  #unreadable = h("p", { class: "notice", hidden: true });
  /** @type {{expression: string, keys: Set<string>} | null} */
  #matches = null;
  #asked = "";
  /** @type {AbortController | null} */
  #request = null;
  /** @type {(() => void)[]} */
  #ends = [];
  #page = 0;

  connectedCallback() {
    const { fleet } = this.context;
    const refresh = throttled(() => this.#refresh(), REFRESH);
    const loaded = () => this.#reload();
    const changed = (/** @type {Event} */ event) => {
      const { detail } = /** @type {CustomEvent<import("../model/fleet.js").Touched>} */ (event);
      const isArranged = detail.isArranged && !(this.#isOnly && this.#isFiltered);
      this.#map.changed(detail, isArranged);
      if (!detail.isArranged && this.#matches) {
        this.#ask(this.#matches.expression);
      }
      refresh();
    };
    fleet.addEventListener("loaded", loaded);
    fleet.addEventListener("changed", changed);
    const print = () => this.#print();
    const printed = () => this.querySelector(".printed-map")?.remove();
    addEventListener("beforeprint", print);
    addEventListener("afterprint", printed);
    this.#ends = [
      () => fleet.removeEventListener("loaded", loaded),
      () => fleet.removeEventListener("changed", changed),
      () => removeEventListener("beforeprint", print),
      () => removeEventListener("afterprint", printed),
      () => this.#request?.abort(),
    ];
    this.#filter.addEventListener("input", settled(() => amend({ filter: this.#filter.value.trim() || null }), TYPING));
    this.#holder.addEventListener("input", settled(() => amend({ holder: this.#holder.value.trim() || null }), TYPING));
    this.#only.addEventListener("change", () => amend({ only: this.#only.checked ? "1" : null }));
    fill(
      this,
      h("div", { class: "view-head" }, this.#title, this.#summary),
      this.#unreadable,
      h(
        "div",
        { class: "chips-row" },
        this.#chips,
        h("div", { class: "segmented", role: "group", "aria-label": "Show as" }, this.#asMap, this.#asTable),
        h(
          "div",
          { class: "segmented", role: "group", "aria-label": "Save the map" },
          button("SVG", () => this.#save("svg"), { "aria-label": "Save the map as SVG" }),
          button("PNG", () => this.#save("png"), { "aria-label": "Save the map as PNG" }),
        ),
      ),
      h(
        "div",
        { class: "tools", role: "search", "aria-label": "Devices" },
        h("div", { class: "grow" }, labelled("Filter (CEL)", this.#filter)),
        labelled("Held by claim or pod", this.#holder),
        labelled("Group by", this.#group),
        labelled("Cells", this.#size),
        this.#onlyLabel,
      ),
      this.#problem,
      this.#map,
      this.#table,
    );
  }

  disconnectedCallback() {
    this.#ends.forEach((end) => end());
  }

  /** @param {Route} route */
  show(route) {
    this.#query = route.query;
    for (const [field, name] of /** @type {[HTMLInputElement, string][]} */ ([[this.#filter, "filter"], [this.#holder, "holder"]])) {
      if (document.activeElement !== field) {
        field.value = this.#value(name);
      }
    }
    this.#only.checked = this.#isOnly;
    this.#size.value = this.#value("size");
    const isTable = this.#value("view") === "table";
    set(this.#asMap, "aria-pressed", String(!isTable));
    set(this.#asTable, "aria-pressed", String(isTable));
    this.#page = 0;
    this.#ask(this.#value("filter"));
    this.#reload();
  }

  /** @param {string} name */
  #value(name) {
    return this.#query.get(name) ?? "";
  }

  get #isOnly() {
    return this.#value("only") === "1";
  }

  get #states() {
    return new Set(this.#value("state").split(",").filter(Boolean));
  }

  get #isFiltered() {
    return Boolean(this.#matches || this.#value("holder") || this.#states.size);
  }

  /**
   * Whether a cell is one of those that the filter, the search and the states name.
   *
   * @param {string} key
   * @param {Cell} cell
   */
  #matching(key, cell) {
    const states = this.#states;
    if (states.size && !states.has(cell.st) && !marksOf(cell).some((mark) => states.has(mark))) {
      return false;
    }
    const wanted = this.#value("holder").toLowerCase();
    if (wanted && ![...claimsOf(cell), ...podsOf(cell)].some((name) => name.toLowerCase().includes(wanted))) {
      return false;
    }
    return !this.#matches || this.#matches.keys.has(key) || Boolean(cell.p?.some((part) => this.#matches?.keys.has(part.k)));
  }

  get #shown() {
    const { fleet } = this.context;
    const keep = this.#isFiltered ? (/** @type {string} */ key, /** @type {Cell} */ cell) => this.#matching(key, cell) : null;
    return {
      fleet,
      groups: () => groupsOf(fleet, this.#value("group") || "node", this.#isOnly ? keep : null),
      size: /** @type {import("../map/layout.js").Size | ""} */ (SIZES.some(([value]) => value === this.#value("size")) ? this.#value("size") : ""),
      isEmphasised: keep && !this.#isOnly ? (/** @type {string} */ key) => keep(key, /** @type {Cell} */ (fleet.cells.get(key))) : null,
    };
  }

  #reload() {
    const { fleet } = this.context;
    offer(this.#group, ways(fleet), this.#value("group") || "node");
    const isTable = this.#value("view") === "table";
    this.#map.hidden = isTable;
    this.#table.hidden = !isTable;
    if (!isTable) {
      this.#map.show(this.#shown);
    }
    this.#refresh();
  }

  /** Shows what depends on all cells. */
  #refresh() {
    const { fleet } = this.context;
    const counts = fleet.counts.size ? fleet.counts : countedStates(fleet.cells.values());
    const marks = marked(fleet.cells.values());
    this.#onlyLabel.hidden = !this.#isFiltered && !this.#isOnly;
    const matching = this.#isFiltered ? [...fleet.cells].filter(([key, cell]) => this.#matching(key, cell)).length : null;
    this.#summary.textContent = fleet.isLoaded
      ? `${counted(fleet.cells.size, "device")} on ${counted(fleet.nodes.size, "node")}${matching === null ? "" : `, ${number(matching)} match`}`
      : "Loading…";
    this.#unreadable.hidden = fleet.unreadable.length === 0;
    this.#unreadable.textContent = `You may not read everything: ${fleet.unreadable.join("; ")}`;
    this.#fillChips(counts, marks);
    if (!this.#table.hidden) {
      this.#fillTable();
    }
    this.#map.classList.toggle("nothing", fleet.isLoaded && fleet.cells.size === 0);
  }

  /**
   * @param {Map<string, number>} counts
   * @param {Map<string, number>} marks
   */
  #fillChips(counts, marks) {
    const chosen = this.#states;
    for (const state of [...STATES, ...MARKS]) {
      let chip = /** @type {HTMLButtonElement | null} */ (this.#chips.querySelector(`[data-state="${state}"]`));
      if (!chip) {
        chip = h("button", { type: "button", class: "chip", "data-state": state, title: MEANING[state], onclick: () => this.#toggle(state) }, stateIcon(state), h("strong", null, "0"), state);
        this.#chips.append(chip);
      }
      const amount = counts.get(state) ?? marks.get(state) ?? 0;
      const shown = /** @type {HTMLElement} */ (chip.querySelector("strong"));
      if (shown.textContent !== number(amount)) {
        shown.textContent = number(amount);
      }
      chip.classList.toggle("none", amount === 0);
      set(chip, "aria-pressed", String(chosen.has(state)));
    }
  }

  /** @param {string} state */
  #toggle(state) {
    const chosen = this.#states;
    if (!chosen.delete(state)) {
      chosen.add(state);
    }
    amend({ state: [...chosen].join(",") || null });
  }

  #fillTable() {
    const { fleet } = this.context;
    const keep = (/** @type {string} */ key, /** @type {Cell} */ cell) => this.#matching(key, cell);
    const groups = groupsOf(fleet, this.#value("group") || "node", this.#isFiltered ? keep : null);
    const inside = this.#table.contains(document.activeElement);
    if (!inside || !this.#table.childElementCount) {
      fill(
        this.#table,
        deviceTable(fleet, groups, this.#page, (page) => {
          this.#page = page;
          fill(this.#table);
          this.#fillTable();
          /** @type {HTMLElement | null} */ (this.#table.querySelector(".table"))?.focus();
        }),
      );
    }
  }

  /**
   * Asks the server which devices an expression selects.
   *
   * @param {string} expression
   */
  async #ask(expression) {
    if (expression === this.#asked && this.#matches?.expression === expression) {
      return;
    }
    this.#asked = expression;
    this.#request?.abort();
    if (!expression) {
      this.#matches = null;
      this.#say(null);
      return;
    }
    this.#request = new AbortController();
    try {
      const found = /** @type {import("../base/types.js").Matches} */ (await this.context.server.get("filter", { expression }, this.#request.signal));
      this.#matches = { expression, keys: new Set([...found.cells, ...found.parts]) };
      this.#say(null);
      this.#note(found);
      answer(`${counted(found.cells.length, "device")} match`);
    } catch (error) {
      if (isAborted(error)) {
        return;
      }
      this.#matches = null;
      this.#say(error instanceof ServerError ? error : new ServerError(0, String(error)));
    }
    this.#reload();
  }

  /**
   * Says on how many devices an expression fails: they do not match.
   *
   * @param {import("../base/types.js").Matches} found
   */
  #note(found) {
    if (found.failing) {
      this.#problem.hidden = false;
      fill(this.#problem, h("p", null, `The expression fails on ${counted(found.failing, "device")}${found.message ? `: ${found.message}` : ""}`));
    }
  }

  /** @param {ServerError | null} error */
  #say(error) {
    set(this.#filter, "aria-invalid", error ? "true" : null);
    this.#problem.hidden = !error;
    fill(this.#problem, error && expressionError(this.#asked, error, (expression) => this.#use(expression)));
  }

  /** @param {string} expression */
  #use(expression) {
    this.#filter.value = expression;
    amend({ filter: expression });
    this.#filter.focus();
  }

  get #caption() {
    const { session, fleet } = this.context;
    return captionOf(session.cluster.name, fleet.cells.size, fleet.time);
  }

  /** @param {"svg" | "png"} format */
  async #save(format) {
    try {
      await download(format, this.#shown, this.#caption);
      answer(`The map was saved as ${format.toUpperCase()}`);
    } catch (error) {
      answer(`The map could not be saved: ${error instanceof Error ? error.message : error}`);
    }
  }

  #print() {
    if (!this.#map.hidden) {
      this.querySelector(".printed-map")?.remove();
      this.append(h("div", { class: "printed-map" }, mapAsSvg(this.#shown, this.#caption, 1000)));
    }
  }
}

customElements.define("devices-view", DevicesView);
