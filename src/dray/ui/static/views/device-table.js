/**
 * All devices and partitions as a table, some hundred lines at a time.
 */
import { button, h, table } from "../base/dom.js";
import { ofClaim, ofDevice, ofNode, ofPod } from "../base/routes.js";
import { number } from "../base/words.js";
import { stateIcon } from "../map/state-icon.js";
import { deviceOf } from "../model/fleet.js";
import { partName, stateText } from "../model/states.js";

/** @typedef {import("../model/fleet.js").Fleet} Fleet */
/** @typedef {import("../model/groups.js").Group} Group */
/** @typedef {import("../base/dom.js").Child} Child */

const LINES = 200;

/**
 * @param {Fleet} fleet
 * @param {Group[]} groups
 * @param {number} page
 * @param {(page: number) => void} turn
 */
export function deviceTable(fleet, groups, page, turn) {
  const all = groups.flatMap((group) => group.cards.flatMap((card) => card.keys.map((key) => ({ group: group.title, card: card.name, key }))));
  const pages = Math.max(1, Math.ceil(all.length / LINES));
  const shown = Math.min(page, pages - 1);
  const lines = all.slice(shown * LINES, (shown + 1) * LINES);
  const hasGroups = groups.some((group) => group.title);
  const columns = [...(hasGroups ? ["Group"] : []), "Device", "Node", "Model", "State", "Marks", "Claim", "Pod"];
  const rows = lines.flatMap((line) => rowsOf(fleet, line, hasGroups));
  return [
    pages > 1 && turning(shown, pages, all.length, turn),
    rows.length ? table("Devices", columns, rows) : h("p", { class: "quiet" }, "No device matches."),
  ];
}

/**
 * @param {Fleet} fleet
 * @param {{group: string, card: string, key: string}} line
 * @param {boolean} hasGroups
 * @returns {Child[][]}
 */
function rowsOf(fleet, line, hasGroups) {
  const cell = fleet.cells.get(line.key);
  if (!cell) {
    return [];
  }
  const before = hasGroups ? [line.group] : [];
  const node = () => (fleet.nodes.has(line.card) ? h("a", { href: ofNode(line.card) }, line.card) : line.card);
  const own = [
    ...before,
    h("a", { href: ofDevice(line.key) }, deviceOf(line.key)),
    node(),
    fleet.shape(cell).model,
    state(cell),
    (cell.m ?? []).map((mark) => h("span", { class: "state" }, stateIcon(mark), mark)),
    links(cell.h, ofClaim),
    links(cell.u, ofPod),
  ];
  const parts = (cell.p ?? []).map((part) => [
    ...before,
    h("span", { class: "indented" }, h("a", { href: ofDevice(part.k) }, partName(line.key, part.k))),
    node(),
    slotsOf(part),
    state(part),
    (part.m ?? []).map((mark) => h("span", { class: "state" }, stateIcon(mark), mark)),
    links(part.h, ofClaim),
    links(part.u, ofPod),
  ]);
  return [own, ...parts];
}

/** @param {import("../base/types.js").Part} part */
function slotsOf(part) {
  return part.w < 1 ? "" : part.w === 1 ? `slot ${part.o}` : `slots ${part.o}–${part.o + part.w - 1}`;
}

/** @param {{st: string, t?: string, f?: number}} cell */
function state(cell) {
  return h("span", { class: "state" }, stateIcon(cell.st, cell.f), stateText(cell));
}

/**
 * @param {string[] | undefined} names
 * @param {(name: string) => string} address
 */
export function links(names, address) {
  return (names ?? []).map((name, at) => [at > 0 && ", ", h("a", { href: address(name) }, name)]).flat();
}

/**
 * @param {number} page
 * @param {number} pages
 * @param {number} amount
 * @param {(page: number) => void} turn
 */
function turning(page, pages, amount, turn) {
  return h(
    "nav",
    { class: "turning", "aria-label": "Pages of the table" },
    button("Previous", () => turn(page - 1), { disabled: page === 0 }),
    h("span", null, `Devices ${number(page * LINES + 1)}–${number(Math.min(amount, (page + 1) * LINES))} of ${number(amount)}`),
    button("Next", () => turn(page + 1), { disabled: page === pages - 1 }),
  );
}
