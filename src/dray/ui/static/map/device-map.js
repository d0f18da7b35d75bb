/**
 * `<device-map>`: all devices on a canvas of which only what is seen is drawn. A grid of links lies over the card that has
 * the keyboard's focus, so that keyboards and screen readers reach each cell; the table beside the map has the same facts.
 */
import { fill, h, throttled } from "../base/dom.js";
import { ofDevice, ofNode } from "../base/routes.js";
import { counted } from "../base/words.js";
import { spoken } from "../model/states.js";
import { cardOf } from "./hover-card.js";
import { arrange, hit, linesBetween, neighbour, suitable } from "./layout.js";
import { paintCard, paintCell, statusOf } from "./painter.js";
import { CanvasSurface } from "./surfaces.js";
import { onTheme, theme } from "./theme.js";

/** @typedef {import("./layout.js").Layout} Layout */
/** @typedef {import("./layout.js").Box} Box */
/** @typedef {import("./layout.js").PlacedCard} PlacedCard */
/** @typedef {import("./layout.js").Size} Size */
/** @typedef {import("../model/fleet.js").Fleet} Fleet */
/** @typedef {import("../model/fleet.js").Touched} Touched */
/**
 * @typedef {object} Shown
 * @property {Fleet} fleet
 * @property {() => import("../model/groups.js").Group[]} groups
 * @property {Size | ""} size empty: as fits the number of cells
 * @property {((key: string) => boolean) | null} isEmphasised others are dimmed; null: none is
 * @property {string} [selected] the key of a cell to mark
 * @property {(key: string) => string} [link] where a cell leads
 */

/** What is drawn above and below what is seen, in pixels. */
const OVERSCAN = 500;
/** Marks reach over the edge of their cells. */
const BLEED = 8;
/** How long a change stays marked, and how often it is looked whether that is over. */
const FLASH = 1200;
const FLASH_LOOK = 300;
const FEW_FLASHES = 200;
const ARRANGE_PAUSE = 250;
const PAGE_STEPS = 8;
const ARROWS = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"]);

export class DeviceMap extends HTMLElement {
  /** Whether the time of the first drawing was noted, for those who measure it. */
  static #isMarked = false;
  /** @type {Shown | null} */
  #shown = null;
  /** @type {Layout | null} */
  #layout = null;
  #canvas = h("canvas", { "aria-hidden": "true" });
  #field = h("div", { class: "map-field" });
  #headings = h("div", { class: "map-headings" });
  #grid = h("div", { class: "map-grid", role: "grid", "aria-label": "Devices by node. Arrow keys move, Enter opens." });
  #pointer = h("a", { class: "map-pointer", href: "#/", tabindex: -1, "aria-hidden": "true", hidden: true });
  #card = h("div", { class: "hover-card", hidden: true, "aria-hidden": "true" });
  #active = "";
  #drawn = { from: 0, to: -1 };
  #frame = 0;
  /** When the mark of a change began. @type {Map<string, number>} */
  #flashes = new Map();
  #flashTimer = 0;
  /** The cards to draw again. @type {Set<PlacedCard>} */
  #dirty = new Set();
  #isStill = matchMedia("(prefers-reduced-motion: reduce)");
  /** @type {(() => void)[]} */
  #ends = [];
  #rearrange = throttled(() => this.arrange(), ARRANGE_PAUSE);

  connectedCallback() {
    this.#field.append(this.#canvas, this.#headings, this.#grid, this.#pointer);
    fill(this, this.#field, this.#card);
    const observer = new ResizeObserver(() => this.arrange());
    observer.observe(this);
    const moved = () => this.#move();
    addEventListener("scroll", moved, { passive: true, capture: true });
    addEventListener("resize", moved);
    this.#ends = [
      () => observer.disconnect(),
      () => removeEventListener("scroll", moved, { capture: true }),
      () => removeEventListener("resize", moved),
      onTheme(() => this.repaint()),
    ];
    this.#field.addEventListener("pointermove", (event) => this.#point(event));
    this.#field.addEventListener("pointerleave", () => this.#unpoint());
    this.#field.addEventListener("click", (event) => this.#click(event));
    this.#grid.addEventListener("keydown", (event) => this.#key(event));
    this.#grid.addEventListener("focusin", (event) => this.#focused(/** @type {HTMLElement} */ (event.target)));
    this.#grid.addEventListener("focusout", () => this.#unpoint());
    this.arrange();
  }

  disconnectedCallback() {
    this.#ends.forEach((end) => end());
    this.#ends = [];
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#flashTimer);
    this.#frame = 0;
    this.#flashTimer = 0;
  }

  /** @param {Shown} shown */
  show(shown) {
    this.#shown = shown;
    this.arrange();
  }

  /** The size in which cells are drawn. */
  get size() {
    return this.#layout?.size ?? "medium";
  }

  /**
   * Draws what a change of the fleet touched.
   *
   * @param {Touched} touched
   * @param {boolean} isArranged whether the cells that are shown are the same as before
   */
  changed(touched, isArranged) {
    if (!isArranged) {
      this.#rearrange();
    }
    if (!this.#isStill.matches && touched.cells.size <= FEW_FLASHES) {
      this.#flash(touched.cells);
    }
    for (const key of touched.cells) {
      this.#soil(key);
    }
    if (touched.nodes.size) {
      this.repaint();
    }
    this.#move();
    this.#speak(touched.cells);
  }

  /** @param {string} key */
  #soil(key) {
    const card = this.#layout?.boxes.get(key)?.card;
    if (card) {
      this.#dirty.add(card);
    }
  }

  /**
   * Marks changed cells for a short while.
   *
   * @param {Set<string>} keys
   */
  #flash(keys) {
    const now = performance.now();
    for (const key of keys) {
      this.#flashes.set(key, now);
    }
    this.#flashTimer ||= setTimeout(() => this.#unflash(), FLASH_LOOK);
  }

  #unflash() {
    const before = performance.now() - FLASH;
    for (const [key, since] of this.#flashes) {
      if (since <= before) {
        this.#flashes.delete(key);
        this.#soil(key);
      }
    }
    this.#flashTimer = this.#flashes.size ? setTimeout(() => this.#unflash(), FLASH_LOOK) : 0;
    this.#move();
  }

  /** Computes all places again. */
  arrange() {
    const shown = this.#shown;
    const width = this.clientWidth;
    if (!shown || !this.isConnected || width === 0) {
      return;
    }
    const groups = shown.groups();
    const cells = groups.reduce((sum, group) => sum + group.count, 0);
    this.#layout = arrange(shown.fleet, groups, width, shown.size || suitable(cells));
    this.#field.style.setProperty("height", `${this.#layout.height}px`);
    fill(
      this.#headings,
      this.#layout.headings.map((heading) => {
        const element = h("h2", null, heading.title, h("span", null, ` ${counted(heading.count, "device")}, ${counted(heading.nodes, "node")}`));
        element.style.setProperty("top", `${heading.y}px`);
        return element;
      }),
    );
    this.#dirty.clear();
    this.#fillGrid();
    this.#unpoint();
    this.repaint();
  }

  /** Draws again with the next frame. */
  repaint() {
    this.#drawn = { from: 0, to: -1 };
    this.#move();
  }

  #move() {
    this.#frame ||= requestAnimationFrame(() => this.#paint());
  }

  /** What is seen of the field, in its own pixels. */
  #seen() {
    const top = -this.#field.getBoundingClientRect().top;
    return { from: Math.max(0, top), to: Math.min(this.#layout?.height ?? 0, top + innerHeight) };
  }

  #paint() {
    this.#frame = 0;
    const [layout, shown] = [this.#layout, this.#shown];
    if (!layout || !shown) {
      return;
    }
    const seen = this.#seen();
    if (seen.from >= this.#drawn.from && seen.to <= this.#drawn.to) {
      this.#paintDirty(layout, shown);
      return;
    }
    const from = Math.max(0, Math.floor(seen.from - OVERSCAN));
    const to = Math.min(layout.height, Math.ceil(Math.max(seen.to, seen.from) + OVERSCAN));
    const surface = new CanvasSurface(this.#prepare(layout.width, from, to));
    for (const line of linesBetween(layout, from, to)) {
      for (const card of line.cards) {
        this.#paintCard(surface, card, layout, shown);
      }
    }
    this.#drawn = { from, to };
    this.#dirty.clear();
    if (layout.boxes.size && !DeviceMap.#isMarked) {
      DeviceMap.#isMarked = true;
      performance.mark("devices-drawn");
    }
  }

  /**
   * Draws again only the cards of which a cell changed.
   *
   * @param {Layout} layout
   * @param {Shown} shown
   */
  #paintDirty(layout, shown) {
    const context = this.#canvas.getContext("2d");
    const { from, to } = this.#drawn;
    for (const card of this.#dirty) {
      if (context && card.y <= to && card.y + card.h >= from) {
        context.clearRect(card.x - 1, card.y - 1, card.w + 2, card.h + 2);
        this.#paintCard(new CanvasSurface(context), card, layout, shown);
      }
    }
    this.#dirty.clear();
  }

  /**
   * @param {CanvasSurface} surface
   * @param {PlacedCard} card
   * @param {Layout} layout
   * @param {Shown} shown
   */
  #paintCard(surface, card, layout, shown) {
    const colors = theme();
    paintCard(surface, card, shown.fleet, layout.size, colors);
    for (const box of card.boxes) {
      paintCell(surface, box, shown.fleet, layout.size, colors, Boolean(shown.isEmphasised && !shown.isEmphasised(box.key)));
      if (this.#flashes.has(box.key) || box.key === shown.selected) {
        const reach = layout.size === "tiny" ? 1 : 3;
        surface.rect(box.x - reach, box.y - reach, box.w + 2 * reach, box.h + 2 * reach, { stroke: colors.change, width: 2, radius: reach + 4 });
      }
    }
  }

  /**
   * @param {number} width
   * @param {number} from
   * @param {number} to
   */
  #prepare(width, from, to) {
    const canvas = this.#canvas;
    const ratio = devicePixelRatio || 1;
    const [cssWidth, cssHeight] = [width + 2 * BLEED, Math.max(1, to - from) + 2 * BLEED];
    const [pixelWidth, pixelHeight] = [Math.round(cssWidth * ratio), Math.round(cssHeight * ratio)];
    if (canvas.width !== pixelWidth || canvas.height !== pixelHeight) {
      canvas.width = pixelWidth;
      canvas.height = pixelHeight;
      canvas.style.setProperty("width", `${cssWidth}px`);
      canvas.style.setProperty("height", `${cssHeight}px`);
    }
    canvas.style.setProperty("top", `${from - BLEED}px`);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, cssWidth, cssHeight);
    context.translate(BLEED, BLEED - from);
    return context;
  }

  /**
   * Where a cell is on the screen; null if it is not shown.
   *
   * @param {string} key
   */
  rectOf(key) {
    const box = this.#layout?.boxes.get(key);
    if (!box) {
      return null;
    }
    const field = this.#field.getBoundingClientRect();
    return new DOMRect(field.x + box.x, field.y + box.y, box.w, box.h);
  }

  /** @param {Box} box */
  #href(box) {
    return this.#shown?.link?.(box.key) ?? ofDevice(box.key);
  }

  /** @param {PointerEvent | MouseEvent} event */
  #hit(event) {
    const field = this.#field.getBoundingClientRect();
    return this.#layout ? hit(this.#layout, event.clientX - field.x, event.clientY - field.y) : null;
  }

  /** @param {PointerEvent} event */
  #point(event) {
    const found = this.#hit(event);
    if (!found) {
      this.#unpoint();
      return;
    }
    // A link lies below the pointer, so that it opens in a new tab too.
    const isNode = !found.box && this.#shown?.fleet.nodes.has(found.card.name) && found.card.head;
    if (found.box) {
      this.#place(this.#pointer, found.box);
      this.#pointer.setAttribute("href", this.#href(found.box));
    } else if (isNode) {
      this.#place(this.#pointer, { ...found.card, h: found.card.head });
      this.#pointer.setAttribute("href", ofNode(found.card.name));
    }
    this.#pointer.hidden = !found.box && !isNode;
    this.#describe(found.card, found.box, new DOMRect(event.clientX, event.clientY, 0, 0));
  }

  #unpoint() {
    this.#pointer.hidden = true;
    this.#card.hidden = true;
  }

  /** @param {MouseEvent} event */
  #click(event) {
    if (event.target instanceof HTMLAnchorElement) {
      return;
    }
    const found = this.#hit(event);
    if (found?.box) {
      location.hash = this.#href(found.box);
    } else if (found?.card.head && this.#shown?.fleet.nodes.has(found.card.name)) {
      location.hash = ofNode(found.card.name);
    }
  }

  /**
   * Shows what is known of a cell beside it.
   *
   * @param {PlacedCard} card
   * @param {Box | null} box
   * @param {DOMRect} place
   */
  #describe(card, box, place) {
    const shown = this.#shown;
    const cell = box && shown?.fleet.cells.get(box.key);
    if (!shown || !box || !cell) {
      this.#card.hidden = true;
      return;
    }
    fill(this.#card, cardOf(box.key, cell, shown.fleet, card.name));
    this.#card.hidden = false;
    const own = this.#card.getBoundingClientRect();
    const x = Math.min(place.right + 14, innerWidth - own.width - 10);
    const below = place.bottom + 16;
    const y = below + own.height < innerHeight - 8 ? below : Math.max(8, place.top - own.height - 12);
    this.#card.style.setProperty("left", `${Math.max(8, x)}px`);
    this.#card.style.setProperty("top", `${y}px`);
  }

  /**
   * @param {HTMLElement} element
   * @param {{x: number, y: number, w: number, h: number}} area
   */
  #place(element, area) {
    for (const [name, value] of Object.entries({ left: area.x, top: area.y, width: area.w, height: area.h })) {
      element.style.setProperty(name, `${value}px`);
    }
  }

  /** Puts links over the cells of the active card. */
  #fillGrid() {
    const [layout, shown] = [this.#layout, this.#shown];
    if (!layout || !shown) {
      return;
    }
    const hadFocus = this.#grid.contains(document.activeElement);
    const first = layout.cards.find((card) => card.boxes.length)?.boxes[0];
    const active = layout.boxes.get(this.#active) ?? first;
    this.#grid.setAttribute("aria-rowcount", String(layout.cards.length));
    this.#grid.hidden = !active;
    if (!active) {
      fill(this.#grid);
      return;
    }
    this.#active = active.key;
    const row = h("div", { role: "row", "aria-rowindex": active.card.index + 1 });
    const status = statusOf(shown.fleet.nodes.get(active.card.name));
    row.append(h("span", { role: "rowheader", class: "unseen" }, `${active.card.name}${status && `, ${status}`}`));
    active.card.boxes.forEach((box, at) => {
      const cell = shown.fleet.cells.get(box.key);
      const link = h("a", { href: this.#href(box), tabindex: box.key === active.key ? 0 : -1, "data-key": box.key });
      link.textContent = cell ? spoken(box.key, cell, shown.fleet.shape(cell).model) : "";
      this.#place(link, box);
      row.append(h("span", { role: "gridcell", "aria-colindex": at + 2 }, link));
    });
    fill(this.#grid, row);
    if (hadFocus) {
      this.#link(active.key)?.focus({ preventScroll: true });
    }
  }

  /** @param {string} key */
  #link(key) {
    return [...this.#grid.querySelectorAll("a")].find((link) => link.dataset.key === key);
  }

  /**
   * Moves the focus to a cell.
   *
   * @param {string} key
   */
  focusCell(key) {
    const box = this.#layout?.boxes.get(key);
    if (!box) {
      return;
    }
    const before = this.#layout?.boxes.get(this.#active);
    this.#active = key;
    if (before?.card !== box.card || !this.#link(key)) {
      this.#fillGrid();
    }
    for (const link of this.#grid.querySelectorAll("a")) {
      link.tabIndex = link.dataset.key === key ? 0 : -1;
    }
    const link = this.#link(key);
    link?.focus();
    // It may have had the focus already, out of sight.
    link?.scrollIntoView({ block: "nearest" });
  }

  /** @param {HTMLElement} target */
  #focused(target) {
    const box = this.#layout?.boxes.get(target.dataset.key ?? "");
    if (box) {
      this.#active = box.key;
      this.#describe(box.card, box, target.getBoundingClientRect());
    }
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const layout = this.#layout;
    const from = layout?.boxes.get(this.#active);
    if (!layout || !from || event.altKey || event.metaKey) {
      return;
    }
    const to = this.#target(layout, from, event);
    if (to) {
      event.preventDefault();
      this.focusCell(to.key);
    }
  }

  /**
   * @param {Layout} layout
   * @param {Box} from
   * @param {KeyboardEvent} event
   * @returns {Box | null | undefined}
   */
  #target(layout, from, event) {
    const { key } = event;
    if (ARROWS.has(key)) {
      return neighbour(layout, from, /** @type {"ArrowUp"} */ (key));
    }
    if (key === "PageUp" || key === "PageDown") {
      let found = from;
      for (let step = 0; step < PAGE_STEPS; step += 1) {
        found = neighbour(layout, found, key === "PageUp" ? "ArrowUp" : "ArrowDown") ?? found;
      }
      return found;
    }
    if (key === "Home" || key === "End") {
      const boxes = event.ctrlKey ? layout.cards.flatMap((card) => card.boxes) : from.card.boxes;
      return boxes.at(key === "Home" ? 0 : -1);
    }
    return null;
  }

  /**
   * Keeps the words of the links true.
   *
   * @param {Set<string>} keys
   */
  #speak(keys) {
    for (const link of this.#grid.querySelectorAll("a")) {
      const key = link.dataset.key ?? "";
      const cell = this.#shown?.fleet.cells.get(key);
      if (cell && keys.has(key)) {
        link.textContent = spoken(key, cell, this.#shown?.fleet.shape(cell).model ?? "");
      }
    }
  }
}

customElements.define("device-map", DeviceMap);

