/**
 * The words for states and marks of devices, in the order in which they are shown.
 */
import { claimsOf, deviceOf, marksOf, podsOf } from "./fleet.js";
import { counted, some } from "../base/words.js";

/** @typedef {import("../base/types.js").Cell} Cell */
/** @typedef {import("../base/types.js").DeviceState} DeviceState */

/** @type {readonly DeviceState[]} */
export const STATES = ["in use", "shared", "free", "blocked", "missing"];
export const MARKS = ["tainted", "unhealthy"];

/** @type {Record<string, string>} */
export const MEANING = {
  free: "No claim holds it, and a claim could get it.",
  shared: "Claims hold shares of it, and another claim could get one.",
  "in use": "Claims hold it, and no other claim could get it.",
  blocked: "No claim holds it, and none could get it.",
  missing: "Claims hold it, and it is no longer published.",
  tainted: "Only claims that tolerate its taint can get it.",
  unhealthy: "Its driver reports it as unhealthy.",
};

/**
 * What a screen reader says of a cell.
 *
 * @param {string} key
 * @param {Cell} cell
 * @param {string} model
 */
export function spoken(key, cell, model) {
  const parts = cell.p ?? [];
  const claims = claimsOf(cell);
  const pods = podsOf(cell);
  return [
    deviceOf(key),
    model,
    stateText(cell),
    parts.length ? counted(parts.length, "partition") : "",
    claims.length ? `claim ${some(claims)}` : "",
    pods.length ? `pod ${some(pods)}` : "",
    ...marksOf(cell),
  ]
    .filter(Boolean)
    .join(", ");
}

/** @param {{st: string, t?: string, f?: number}} cell */
export function stateText(cell) {
  return cell.t || (cell.st === "shared" && cell.f !== undefined ? `shared, ${cell.f} % used` : cell.st);
}

/**
 * The name of a partition without that of its device.
 *
 * @param {string} root
 * @param {string} part
 */
export function partName(root, part) {
  const device = deviceOf(root);
  const name = deviceOf(part);
  return name.startsWith(`${device}-`) ? name.slice(device.length + 1) : name;
}
