/**
 * `<app-frame>`: what all views have beside them: navigation, the connection, who is signed in.
 */
import { announce, answer } from "../base/announcements.js";
import { button, fill, h, set, throttled } from "../base/dom.js";
import { address, current } from "../base/routes.js";
import { local } from "../base/times.js";
import { counted } from "../base/words.js";
import { Fleet, deviceOf } from "../model/fleet.js";
import { LiveStream } from "../model/stream.js";
import { CapacityView } from "./capacity-view.js";
import { DevicesView } from "./devices-view.js";
import { HealthView } from "./health-view.js";
import { HistoryView } from "./history-view.js";
import { ObjectView } from "./object-view.js";
import { WaitingView } from "./waiting-view.js";

/** @typedef {import("../model/server.js").Server} Server */
/** @typedef {import("../base/types.js").Session} Session */
/** @typedef {{server: Server, session: Session, fleet: Fleet, stream: LiveStream}} Context */
/** @typedef {HTMLElement & {context: Context, show: (route: import("../base/routes.js").Route) => void}} View */

/** @type {Record<string, {title: string, make: () => View, isInNavigation: boolean}>} */
const VIEWS = {
  devices: { title: "Devices", make: () => new DevicesView(), isInNavigation: true },
  waiting: { title: "Waiting", make: () => new WaitingView(), isInNavigation: true },
  history: { title: "History", make: () => new HistoryView(), isInNavigation: true },
  capacity: { title: "Capacity", make: () => new CapacityView(), isInNavigation: true },
  health: { title: "Health", make: () => new HealthView(), isInNavigation: true },
  device: { title: "Device", make: () => new ObjectView(), isInNavigation: false },
  claim: { title: "Claim", make: () => new ObjectView(), isInNavigation: false },
  pod: { title: "Pod", make: () => new ObjectView(), isInNavigation: false },
  node: { title: "Node", make: () => new ObjectView(), isInNavigation: false },
};
const COUNT_PAUSE = 300;

export class AppFrame extends HTMLElement {
  #main = h("main", { id: "main", tabindex: -1 });
  #banner = h("p", { class: "banner", role: "status", hidden: true });
  #live = h("span", { class: "live" });
  #waiting = h("span", { class: "badge", hidden: true });
  /** @type {Map<string, HTMLAnchorElement>} */
  #links = new Map();
  /** @type {Context | null} */
  #context = null;
  /** @type {View | null} */
  #view = null;
  #shown = "";
  #wasLost = false;
  #route = () => this.#go();
  /** @type {Map<string, number>} */
  #scrolls = new Map();

  /**
   * @param {Server} server
   * @param {Session} session
   */
  start(server, session) {
    const fleet = new Fleet();
    const stream = new LiveStream(server, fleet);
    this.#context = { server, session, fleet, stream };
    const count = throttled(() => this.#count(), COUNT_PAUSE);
    fleet.addEventListener("loaded", () => {
      this.#count();
      this.#connect();
    });
    fleet.addEventListener("changed", (event) => {
      const { detail } = /** @type {CustomEvent<import("../model/fleet.js").Touched>} */ (event);
      count();
      this.#connect();
      this.#tell(detail.cells);
    });
    stream.addEventListener("connection", () => this.#connect());
    this.#build(session);
    stream.start();
  }

  stop() {
    this.#context?.stream.stop();
  }

  connectedCallback() {
    addEventListener("hashchange", this.#route);
    this.#go();
  }

  disconnectedCallback() {
    removeEventListener("hashchange", this.#route);
    this.stop();
  }

  /** @param {Session} session */
  #build(session) {
    const entries = Object.entries(VIEWS).filter(([, view]) => view.isInNavigation);
    this.#links = new Map(entries.map(([name, view]) => [name, h("a", { href: address(name) }, view.title, name === "waiting" && this.#waiting)]));
    fill(
      this,
      h(
        "header",
        { class: "top" },
        h("a", { class: "brand", href: address("devices"), "aria-label": "dray, devices" }, "dray"),
        h("span", { class: "cluster", title: `${session.cluster.name} ${session.cluster.version}` }, session.cluster.name),
        h("nav", { "aria-label": "Views" }, h("ul", null, [...this.#links.values()].map((link) => h("li", null, link)))),
        h(
          "div",
          { class: "account" },
          this.#live,
          h("span", { class: "user", title: session.user }, session.user),
          button("Sign out", () => this.#leave(), { class: "plain" }),
        ),
      ),
      this.#banner,
      this.#main,
    );
  }

  async #leave() {
    this.stop();
    await this.#context?.server.post("logout", {}).catch(() => null);
    location.hash = "";
    location.reload();
  }

  #count() {
    const amount = this.#context?.fleet.waiting.size ?? 0;
    this.#waiting.hidden = amount === 0;
    this.#waiting.textContent = amount > 999 ? "999+" : String(amount);
    set(this.#waiting, "aria-label", `${amount} waiting`);
    set(this.#waiting, "role", "img");
  }

  /** Says whether what is shown is up to date: the page may have lost its server, and that one the API server. */
  #connect() {
    const stream = this.#context?.stream;
    const outage = this.#context?.fleet.outage;
    const isLost = stream?.connection === "lost" || Boolean(outage);
    const isLive = stream?.connection === "live" && !outage;
    const state = isLive ? "live" : isLost ? "lost" : "connecting";
    set(this.#live, "class", `live ${state}`);
    this.#live.textContent = { live: "Live", lost: "Disconnected", connecting: "Connecting" }[state];
    if (stream?.connection === "lost") {
      this.#say(`The connection to the server is lost since ${local(stream.lostAt ?? Date.now())}. What is shown may have changed; trying again.`);
    } else if (outage) {
      this.#say(`The API server cannot be followed since ${local(outage.since)}: ${outage.reason}. What is shown may have changed; trying again.`);
    }
    if (isLive && this.#wasLost) {
      answer("Connected again. What is shown is up to date.");
    }
    this.#banner.hidden = !isLost;
    this.#wasLost = isLost;
  }

  /**
   * Fills the banner; the same text again would be read out again.
   *
   * @param {string} text
   */
  #say(text) {
    if (this.#banner.textContent !== text) {
      this.#banner.textContent = text;
    }
  }

  /** @param {Set<string>} keys */
  #tell(keys) {
    const [first] = keys;
    const cell = first === undefined ? undefined : this.#context?.fleet.cells.get(first);
    if (first !== undefined && keys.size === 1 && cell) {
      announce(`${deviceOf(first)} on ${cell.n || "the network"} is ${cell.st}`);
    } else if (keys.size > 1) {
      announce(`${counted(keys.size, "device")} changed`);
    }
  }

  #go() {
    const context = this.#context;
    if (!context) {
      return;
    }
    if (location.hash === "#main") {
      this.#main.focus();
      return;
    }
    const route = current();
    const entry = VIEWS[route.view];
    const id = address(route.view, route.path);
    for (const [name, link] of this.#links) {
      set(link, "aria-current", name === route.view ? "page" : null);
    }
    if (id === this.#shown && this.#view) {
      this.#view.show(route);
      return;
    }
    this.#scrolls.set(this.#shown, scrollY);
    const isFirst = this.#shown === "";
    this.#shown = id;
    this.#view = null;
    if (!entry) {
      fill(this.#main, h("h1", { tabindex: -1 }, "No such view"), h("p", null, "This address leads nowhere. ", h("a", { href: address("devices") }, "Show the devices")));
      return;
    }
    const view = entry.make();
    view.context = context;
    this.#view = view;
    document.title = `${[entry.title, ...route.path.slice(-1)].join(" ")} · ${context.session.cluster.name} · dray`;
    fill(this.#main, view);
    view.show(route);
    if (!isFirst) {
      view.querySelector("h1")?.focus({ preventScroll: true });
      scrollTo(0, route.path.length ? 0 : this.#scrolls.get(id) ?? 0);
    }
  }
}

customElements.define("app-frame", AppFrame);
