/**
 * Divides the devices into groups of cards: by class, driver, model, a label of their node, or an attribute.
 */
import { driverOf } from "./fleet.js";
import { byName } from "../base/words.js";

/** @typedef {import("./fleet.js").Fleet} Fleet */
/** @typedef {import("../base/types.js").Cell} Cell */
/** @typedef {{name: string, keys: string[]}} Card */
/** @typedef {{title: string, count: number, cards: Card[]}} Group */
/** @typedef {(key: string, cell: Cell) => boolean} Keep */

const NONE = "(none)";
const LABEL = "label:";
const ATTRIBUTE = "attr:";
/** Labels that differ on every node, or say what every node says. */
const DULL_LABELS = new Set(["kubernetes.io/hostname", "kubernetes.io/os"]);
/** Attributes with more values than this name a device instead of grouping devices. */
const MOST_VALUES = 200;

/**
 * @param {Fleet} fleet
 * @param {string} by
 * @param {Keep | null} keep the devices to show; null for all
 * @returns {Group[]}
 */
export function groupsOf(fleet, by, keep) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  for (const [name, keys] of fleet.byCard) {
    for (const [title, own] of divided(fleet, by, name, keys, keep)) {
      const group = groups.get(title) ?? { title, count: 0, cards: [] };
      groups.set(title, group);
      group.cards.push({ name, keys: own });
      group.count += own.length;
    }
  }
  return [...groups.values()].sort((one, other) => Number(one.title === NONE) - Number(other.title === NONE) || byName(one.title, other.title));
}

/**
 * The devices of a card by the title of their group.
 *
 * @param {Fleet} fleet
 * @param {string} by
 * @param {string} card
 * @param {string[]} keys
 * @param {Keep | null} keep
 */
function divided(fleet, by, card, keys, keep) {
  /** @type {Map<string, string[]>} */
  const found = new Map();
  if (!keys.length && !keep && (by === "node" || by.startsWith(LABEL))) {
    found.set(titleOfCard(fleet, by, card), []);
  }
  for (const key of keys) {
    const cell = /** @type {Cell} */ (fleet.cells.get(key));
    if (keep && !keep(key, cell)) {
      continue;
    }
    const title = by === "node" || by.startsWith(LABEL) ? titleOfCard(fleet, by, card) : titleOfCell(fleet, by, key, cell);
    const own = found.get(title);
    if (own) {
      own.push(key);
    } else {
      found.set(title, [key]);
    }
  }
  return found;
}

/**
 * @param {Fleet} fleet
 * @param {string} by
 * @param {string} card
 */
function titleOfCard(fleet, by, card) {
  return by === "node" ? "" : fleet.nodes.get(card)?.labels[by.slice(LABEL.length)] ?? NONE;
}

/**
 * @param {Fleet} fleet
 * @param {string} by
 * @param {string} key
 * @param {Cell} cell
 */
function titleOfCell(fleet, by, key, cell) {
  const shape = fleet.shape(cell);
  switch (by) {
    case "class":
      return shape.classes.join(", ") || "(no class)";
    case "driver":
      return driverOf(key);
    case "model":
      return shape.model || NONE;
    default: {
      const value = shape.attributes[by.slice(ATTRIBUTE.length)];
      return value === undefined ? NONE : String(value);
    }
  }
}

/**
 * The ways to group that make sense for a fleet.
 *
 * @param {Fleet} fleet
 * @returns {[value: string, text: string][]}
 */
export function ways(fleet) {
  const labels = new Set([...fleet.nodes.values()].flatMap((node) => Object.keys(node.labels)));
  /** @type {Map<string, Set<string>>} */
  const attributes = new Map();
  for (const shape of fleet.shapes.values()) {
    for (const [name, value] of Object.entries(shape.attributes)) {
      attributes.set(name, (attributes.get(name) ?? new Set()).add(String(value)));
    }
  }
  return [
    ["node", "Node"],
    ["class", "DeviceClass"],
    ["model", "Model"],
    ["driver", "Driver"],
    ...[...labels]
      .filter((name) => !DULL_LABELS.has(name))
      .sort(byName)
      .map((name) => /** @type {[string, string]} */ ([LABEL + name, `Label ${name}`])),
    ...[...attributes]
      .filter(([, values]) => values.size <= MOST_VALUES)
      .map(([name]) => name)
      .sort(byName)
      .map((name) => /** @type {[string, string]} */ ([ATTRIBUTE + name, `Attribute ${name}`])),
  ];
}
