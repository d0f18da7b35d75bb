/**
 * `<object-view>`: the page of a claim, pod, node or device with all that belongs to it.
 */
import { fill, h, settled, table } from "../base/dom.js";
import { address, ofTarget } from "../base/routes.js";
import { DAY, timeElement } from "../base/times.js";
import { counted } from "../base/words.js";
import { ganttChart, scrollToMoment } from "../charts/gantt-chart.js";
import { DeviceMap } from "../map/device-map.js";
import { stateIcon } from "../map/state-icon.js";
import { claimsOf, deviceOf, podsOf } from "../model/fleet.js";
import { isAborted, path } from "../model/server.js";
import { MARKS, STATES } from "../model/states.js";
import { actionsOf } from "./actions.js";
import { copyButton } from "./command-line.js";
import { ExplanationPanel } from "./explanation-panel.js";

/** @typedef {import("./app-frame.js").Context} Context */
/** @typedef {import("../base/routes.js").Route} Route */
/** @typedef {import("../base/types.js").ObjectPage} ObjectPage */
/** @typedef {import("../base/types.js").ChainStep} ChainStep */
/** @typedef {import("../model/fleet.js").Touched} Touched */

const REFRESH = 400;
const POLL = 10_000;
/** What the frame of a chart takes of its width. */
const FRAME = 34;
const KINDS = new Map([
  ["device", "Device"],
  ["claim", "ResourceClaim"],
  ["pod", "Pod"],
  ["node", "Node"],
]);

export class ObjectView extends HTMLElement {
  /** @type {Context} */
  // @ts-expect-error set by the frame before it is shown
  context;
  #title = h("h1", { tabindex: -1 });
  #actions = h("div", { class: "actions" });
  #body = h("div", { class: "object" });
  #map = new DeviceMap();
  #explanation = new ExplanationPanel();
  #history = h("section", { "aria-label": "Holders", hidden: true });
  /** @type {Route} */
  #route = { view: "", path: [], query: new URLSearchParams() };
  /** @type {AbortController | null} */
  #request = null;
  #last = "";
  #timer = 0;
  /** @type {(() => void)[]} */
  #ends = [];

  connectedCallback() {
    const { fleet } = this.context;
    const reload = settled(() => this.#load(), REFRESH);
    const loaded = () => this.#load();
    const changed = (/** @type {Event} */ event) => {
      const { detail } = /** @type {CustomEvent<Touched>} */ (event);
      if (this.#concerns(detail)) {
        this.#map.changed(detail, detail.isArranged);
        reload();
      }
    };
    fleet.addEventListener("loaded", loaded);
    fleet.addEventListener("changed", changed);
    this.#timer = setInterval(() => document.visibilityState === "visible" && this.#load(), POLL);
    this.#ends = [() => fleet.removeEventListener("loaded", loaded), () => fleet.removeEventListener("changed", changed), () => clearInterval(this.#timer), () => this.#request?.abort()];
    fill(this, h("div", { class: "view-head" }, this.#title, this.#actions), this.#body);
  }

  disconnectedCallback() {
    this.#ends.forEach((end) => end());
  }

  /** @param {Route} route */
  show(route) {
    this.#route = route;
    fill(this.#title, h("span", { class: "kind" }, KINDS.get(route.view) ?? route.view), this.#name);
    this.#load();
  }

  get #name() {
    const { view, path: parts } = this.#route;
    return view === "device" ? deviceOf(parts[0] ?? "") : parts.join("/");
  }

  /**
   * Whether a change may concern the object.
   *
   * @param {Touched} touched
   */
  #concerns(touched) {
    const { fleet } = this.context;
    const { view, path: parts } = this.#route;
    const name = parts.join("/");
    if (view === "node") {
      return touched.nodes.has(name) || [...touched.cells].some((key) => (fleet.cells.get(key) ?? touched.before.get(key))?.n === name);
    }
    if (view === "device") {
      return touched.cells.has(fleet.cellOf(name) ?? name);
    }
    const ofCell = view === "claim" ? claimsOf : podsOf;
    return (
      touched.waiting.has(`${view}/${name}`) ||
      [...touched.cells].some((key) => [fleet.cells.get(key), touched.before.get(key)].some((cell) => cell && ofCell(cell).includes(name)))
    );
  }

  async #load() {
    const { view, path: parts } = this.#route;
    this.#request?.abort();
    this.#request = new AbortController();
    const { signal } = this.#request;
    try {
      const page = /** @type {ObjectPage} */ (
        await (view === "device" ? this.context.server.get("device", { key: parts[0] ?? "" }, signal) : this.context.server.get(`${view}/${path(...parts)}`, {}, signal))
      );
      if (signal.aborted) {
        return;
      }
      const text = JSON.stringify([page, this.#live]);
      if (text !== this.#last) {
        this.#last = text;
        this.#fill(page);
      }
      this.#showCells();
      await this.#showHistory(signal);
    } catch (error) {
      if (!isAborted(error) && !signal.aborted) {
        this.#last = "";
        fill(this.#body, h("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error)), h("p", null, h("a", { href: address("devices") }, "Show the devices")));
        fill(this.#actions);
      }
    }
  }

  /** What the page shows of the state that the stream brings. */
  get #live() {
    const { fleet } = this.context;
    const { view, path: parts } = this.#route;
    const name = parts.join("/");
    switch (view) {
      case "node":
        return fleet.nodes.get(name);
      case "device":
        return fleet.cells.get(fleet.cellOf(name) ?? "")?.m;
      default:
        return fleet.waiting.get(`${view}/${name}`);
    }
  }

  /** @param {ObjectPage} page */
  #fill(page) {
    const focused = this.#body.contains(document.activeElement) ? document.activeElement?.getAttribute("href") : null;
    this.#build(page);
    if (focused) {
      [...this.#body.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
    }
  }

  /** @param {ObjectPage} page */
  #build(page) {
    const { view, path: parts } = this.#route;
    const isWaiting = this.context.fleet.waiting.has(`${view}/${parts.join("/")}`);
    fill(this.#actions, actionsOf(this.context, this.#route, page));
    // The map shows the devices of a node.
    const chain = view === "node" ? page.chain.filter((step) => step.step !== "node" && step.step !== "device") : page.chain;
    const open = new Set([...this.#body.querySelectorAll("details[open]")].map((details) => details.id));
    fill(
      this.#body,
      isWaiting && h("section", { "aria-label": "Why it waits", class: "panel" }, h("h2", null, "Why it waits"), this.#explanation),
      chain.length > 0 && h("section", { "aria-label": "Path" }, h("h2", null, "From claim to container"), chainOf(chain)),
      h("section", { class: "cells", "aria-label": "Devices" }, this.#map),
      h("section", { "aria-label": "Facts" }, h("h2", null, "Facts"), factsOf(page)),
      this.#history,
      h("section", { "aria-label": "Events" }, h("h2", null, "Events"), eventsOf(page)),
      page.yaml && yamlOf(page.yaml, open.has("yaml")),
    );
    if (isWaiting) {
      this.#explanation.explain(this.context.server, `${view}/${parts.join("/")}`, true);
    }
  }

  #showCells() {
    const { fleet } = this.context;
    const { view, path: parts } = this.#route;
    const name = parts.join("/");
    const keys = view === "node" ? fleet.byCard.get(name) ?? [] : view === "device" ? [fleet.cellOf(name)].flatMap((key) => key ?? []) : this.#heldBy(view, name);
    const section = /** @type {HTMLElement | null} */ (this.#map.closest("section"));
    if (section) {
      section.hidden = keys.length === 0;
    }
    /** @type {Map<string, string[]>} */
    const cards = new Map();
    for (const key of keys) {
      const card = fleet.cells.get(key)?.n || "network-attached";
      cards.set(card, [...(cards.get(card) ?? []), key]);
    }
    const group = { title: "", count: keys.length, cards: [...cards].map(([card, own]) => ({ name: card, keys: own })) };
    this.#map.show({ fleet, groups: () => [group], size: keys.length <= 16 ? "large" : "", isEmphasised: null });
  }

  /**
   * @param {string} view
   * @param {string} name
   */
  #heldBy(view, name) {
    const ofCell = view === "claim" ? claimsOf : podsOf;
    return [...this.context.fleet.cells].filter(([, cell]) => ofCell(cell).includes(name)).map(([key]) => key);
  }

  /** @param {AbortSignal} signal */
  async #showHistory(signal) {
    const { server, session, fleet } = this.context;
    const first = session.history.since;
    if (this.#route.view !== "device" || !first) {
      this.#history.hidden = true;
      return;
    }
    const key = fleet.cellOf(this.#route.path[0]) ?? this.#route.path[0];
    const until = Date.now();
    const since = Math.max(until - DAY, Date.parse(first));
    const history = await server.get("history/device", { key, since: new Date(since).toISOString(), until: new Date(until).toISOString() }, signal);
    const moment = (/** @type {number} */ time) => address("history", [], { at: new Date(time).toISOString(), device: key, range: "1d" });
    this.#history.hidden = false;
    const wasOpen = Boolean(this.#history.querySelector("details[open]"));
    if (!this.#history.contains(document.activeElement) && !wasOpen) {
      fill(this.#history, h("h2", null, "Holders"), ganttChart("Holders of the last 24 hours", history, { since, until }, null, this.clientWidth - FRAME, moment));
      scrollToMoment(this.#history);
    }
  }
}

/** @param {ChainStep[]} steps */
function chainOf(steps) {
  /** @type {ChainStep[][]} */
  const chains = [];
  for (const step of steps) {
    if (step.step === "claim" || !chains.length) {
      chains.push([]);
    }
    chains[chains.length - 1].push(step);
  }
  return chains.map((chain) => h(
    "ol",
    { class: "chain" },
    chain.map((step) => {
      const href = ofTarget(step.link);
      const style = /fail|miss|unhealthy|error|not /i.test(step.state) ? "bad" : /wait|pending|none|unknown/i.test(step.state) ? "open" : "good";
      return h("li", { class: style }, h("span", { class: "chain-step" }, step.step), href ? h("a", { href, title: step.text }, nameOf(step)) : h("strong", null, step.text), h("span", { class: "chain-state" }, step.state));
    }),
  ));
}

/**
 * The name of a step: of a device, that without driver and pool, which its page has.
 *
 * @param {ChainStep} step
 */
function nameOf(step) {
  return step.link?.kind === "device" ? deviceOf(step.text) : step.text;
}

/** @param {ObjectPage} page */
function factsOf(page) {
  return h(
    "dl",
    { class: "facts" },
    page.facts.map((fact) => {
      const href = ofTarget(fact.link);
      const icon = [...STATES, ...MARKS].find((state) => fact.label.toLowerCase() === "state" && (fact.value === state || fact.value.startsWith(`${state} `)));
      return h("div", null, h("dt", null, fact.label), h("dd", null, icon && stateIcon(icon), href ? h("a", { href }, fact.value) : Number.isNaN(instant(fact.value)) ? fact.value : timeElement(fact.value)));
    }),
  );
}

/** @param {string} value */
function instant(value) {
  return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? Date.parse(value) : Number.NaN;
}

/** @param {ObjectPage} page */
function eventsOf(page) {
  if (!page.events.length) {
    return h("p", { class: "quiet" }, "No events.");
  }
  return table(
    "Events",
    ["Time", "Type", "Reason", "Message", ">Count"],
    page.events.map((event) => [timeElement(event.time), h("span", { class: event.type === "Warning" ? "warning" : "" }, event.type), event.reason, h("span", { class: "message" }, event.message), event.count]),
  );
}

/**
 * @param {string} text
 * @param {boolean} isOpen
 */
function yamlOf(text, isOpen) {
  const lines = counted(text.trimEnd().split("\n").length, "line");
  return h("details", { class: "yaml", id: "yaml", open: isOpen }, h("summary", null, h("h2", null, "YAML"), h("span", { class: "quiet" }, lines)), copyButton(text, "YAML"), h("pre", { tabindex: 0 }, text));
}

customElements.define("object-view", ObjectView);
