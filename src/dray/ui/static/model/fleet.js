/**
 * The devices, nodes and waiting pods as the server last told them.
 */
import { byName } from "../base/words.js";

/** @typedef {import("../base/types.js").State} State */
/** @typedef {import("../base/types.js").Change} Change */
/** @typedef {import("../base/types.js").Cell} Cell */
/** @typedef {import("../base/types.js").Part} Part */
/** @typedef {import("../base/types.js").Shape} Shape */
/** @typedef {import("../base/types.js").Moment} Moment */

/**
 * What a change touched. `isArranged` is false if devices or nodes came, went or moved.
 *
 * @typedef {{cells: Set<string>, before: Map<string, Cell>, waiting: Set<string>, nodes: Set<string>, isArranged: boolean}} Touched
 */

/** @type {Shape} */
const NO_SHAPE = { driver: "", model: "", slots: 0, classes: [], attributes: {} };

export class Fleet extends EventTarget {
  seq = 0;
  time = "";
  isLoaded = false;
  /** @type {Map<string, Shape>} */
  shapes = new Map();
  /** @type {Map<string, import("../base/types.js").FleetNode>} */
  nodes = new Map();
  /** @type {Map<string, Cell>} */
  cells = new Map();
  /** @type {Map<string, import("../base/types.js").Waiting>} */
  waiting = new Map();
  /** @type {Map<string, number>} */
  counts = new Map();
  /** @type {string[]} */
  unreadable = [];
  /** @type {import("../base/types.js").Outage | null} */
  outage = null;
  /** @type {Map<string, string[]> | null} */
  #byCard = null;

  /** @param {State} state */
  load(state) {
    this.seq = state.seq;
    this.time = state.time;
    this.isLoaded = true;
    this.shapes = new Map(Object.entries(state.shapes));
    this.nodes = new Map(Object.entries(state.nodes));
    this.cells = new Map(Object.entries(state.cells));
    this.waiting = new Map(Object.entries(state.waiting));
    this.counts = new Map(Object.entries(state.counts));
    this.unreadable = state.unreadable ?? [];
    this.outage = state.outage ?? null;
    this.#byCard = null;
    this.dispatchEvent(new Event("loaded"));
  }

  /** @param {Change} change */
  apply(change) {
    const before = new Map();
    let isArranged = !change.shapes;
    for (const [key, cell] of Object.entries(change.cells ?? {})) {
      const old = this.cells.get(key);
      if (old) {
        before.set(key, old);
      }
      isArranged &&= Boolean(old && cell && old.n === cell.n && old.s === cell.s);
    }
    isArranged &&= Object.entries(change.nodes ?? {}).every(([name, node]) => {
      const old = this.nodes.get(name);
      return Boolean(old && node && JSON.stringify(old.labels) === JSON.stringify(node.labels));
    });
    this.seq = change.seq;
    this.time = change.time;
    merge(this.shapes, change.shapes);
    merge(this.nodes, change.nodes);
    merge(this.cells, change.cells);
    merge(this.waiting, change.waiting);
    if (change.counts) {
      this.counts = new Map(Object.entries(change.counts));
    }
    this.unreadable = change.unreadable ?? this.unreadable;
    this.outage = change.outage === undefined ? this.outage : change.outage;
    if (!isArranged) {
      this.#byCard = null;
    }
    /** @type {Touched} */
    const detail = {
      cells: new Set(Object.keys(change.cells ?? {})),
      before,
      waiting: new Set(Object.keys(change.waiting ?? {})),
      nodes: new Set(Object.keys(change.nodes ?? {})),
      isArranged,
    };
    this.dispatchEvent(new CustomEvent("changed", { detail }));
  }

  /** @param {Cell} cell */
  shape(cell) {
    return this.shapes.get(cell.s) ?? NO_SHAPE;
  }

  /**
   * The keys of the cells by what the map shows as one card: a node, or a pool that belongs to no node. Both are in the
   * order of their names, nodes without devices included.
   */
  get byCard() {
    if (!this.#byCard) {
      /** @type {Map<string, string[]>} */
      const found = new Map([...this.nodes.keys()].map((name) => [name, []]));
      for (const [key, cell] of this.cells) {
        const card = cell.n || `pool ${poolOf(key)}`;
        const keys = found.get(card);
        if (keys) {
          keys.push(key);
        } else {
          found.set(card, [key]);
        }
      }
      for (const keys of found.values()) {
        keys.sort(byName);
      }
      this.#byCard = new Map([...found].sort(([one], [other]) => byName(one, other)));
    }
    return this.#byCard;
  }

  /**
   * The fleet as it was at a moment: the devices of today with the holders and marks of then.
   *
   * @param {Moment} moment
   */
  at(moment) {
    const past = new Fleet();
    past.isLoaded = true;
    past.time = moment.time;
    past.shapes = this.shapes;
    past.nodes = this.nodes;
    const then = new Map(Object.entries(moment.cells ?? {}));
    const holders = new Map(Object.entries(moment.holders));
    const tainted = new Set(moment.tainted);
    const unhealthy = new Set(moment.unhealthy);
    past.cells = new Map(
      [...this.cells].map(([key, cell]) => {
        const known = then.get(key) ?? held(key, cell, holders);
        /** @type {import("../base/types.js").Mark[]} */
        const marks = [];
        if (tainted.has(key)) {
          marks.push("tainted");
        }
        if (unhealthy.has(key)) {
          marks.push("unhealthy");
        }
        return [key, /** @type {Cell} */ ({ m: marks, ...known, n: cell.n, s: cell.s })];
      }),
    );
    past.counts = counted(past.cells.values());
    return past;
  }

  /**
   * The key of the cell that a device belongs to: itself or the GPU of which it is a partition.
   *
   * @param {string} key
   */
  cellOf(key) {
    if (this.cells.has(key)) {
      return key;
    }
    for (const [root, cell] of this.cells) {
      if (cell.p?.some((part) => part.k === key)) {
        return root;
      }
    }
    return null;
  }
}

/**
 * @param {string} key
 * @param {Cell} cell
 * @param {Map<string, import("../base/types.js").Holder[]>} holders
 * @returns {Partial<Cell>}
 */
function held(key, cell, holders) {
  const own = holders.get(key) ?? [];
  const parts = (cell.p ?? [])
    .filter((part) => holders.has(part.k))
    .map((part) => ({ k: part.k, o: part.o, w: part.w, st: /** @type {const} */ ("in use"), ...named(holders.get(part.k) ?? []) }));
  return { st: own.length || parts.length ? "in use" : "free", ...named(own), ...(parts.length ? { p: parts } : {}) };
}

/** @param {import("../base/types.js").Holder[]} holders */
function named(holders) {
  return { h: holders.map((holder) => holder.claim), u: holders.flatMap((holder) => holder.pods) };
}

/**
 * @template T
 * @param {Map<string, T>} into
 * @param {Record<string, T | null> | undefined} changes
 */
function merge(into, changes) {
  for (const [key, value] of Object.entries(changes ?? {})) {
    if (value === null) {
      into.delete(key);
    } else {
      into.set(key, value);
    }
  }
}

/**
 * Counts cells by state; marks are counted beside.
 *
 * @param {Iterable<Cell>} cells
 */
export function counted(cells) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const cell of cells) {
    counts.set(cell.st, (counts.get(cell.st) ?? 0) + 1);
  }
  return counts;
}

/**
 * Counts the cells that have a mark.
 *
 * @param {Iterable<Cell>} cells
 */
export function marked(cells) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const cell of cells) {
    for (const mark of marksOf(cell)) {
      counts.set(mark, (counts.get(mark) ?? 0) + 1);
    }
  }
  return counts;
}

/**
 * The marks of a cell and of its partitions.
 *
 * @param {Cell} cell
 * @returns {readonly string[]}
 */
export function marksOf(cell) {
  const marks = cell.m ?? [];
  if (!cell.p?.some((part) => part.m?.length)) {
    return marks;
  }
  return [...new Set([...marks, ...cell.p.flatMap((part) => part.m ?? [])])];
}

/**
 * All claims that hold the device or a partition of it.
 *
 * @param {Cell} cell
 */
export function claimsOf(cell) {
  return [...new Set([...(cell.h ?? []), ...(cell.p ?? []).flatMap((part) => part.h ?? [])])];
}

/**
 * All pods that use the device or a partition of it.
 *
 * @param {Cell} cell
 */
export function podsOf(cell) {
  return [...new Set([...(cell.u ?? []), ...(cell.p ?? []).flatMap((part) => part.u ?? [])])];
}

/** @param {string} key */
export function driverOf(key) {
  return key.slice(0, key.indexOf("/"));
}

/** @param {string} key */
export function poolOf(key) {
  return key.slice(key.indexOf("/") + 1, key.lastIndexOf("/"));
}

/** @param {string} key */
export function deviceOf(key) {
  return key.slice(key.lastIndexOf("/") + 1);
}
