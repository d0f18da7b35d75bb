/**
 * What is shown of a device beside its cell.
 */
import { h } from "../base/dom.js";
import { claimsOf, deviceOf, marksOf, podsOf } from "../model/fleet.js";
import { partName, stateText } from "../model/states.js";
import { some } from "../base/words.js";
import { stateIcon } from "./state-icon.js";

/** @typedef {import("../base/types.js").Cell} Cell */
/** @typedef {import("../model/fleet.js").Fleet} Fleet */

const MOST_PARTS = 8;

/**
 * @param {string} key
 * @param {Cell} cell
 * @param {Fleet} fleet
 * @param {string} place the node, or the pool that belongs to none
 */
export function cardOf(key, cell, fleet, place) {
  const shape = fleet.shape(cell);
  const parts = cell.p ?? [];
  return [
    h("p", { class: "hover-title" }, h("strong", null, deviceOf(key)), " on ", place),
    h("p", { class: "hover-model" }, [shape.model, shape.memory].filter(Boolean).join(" · ")),
    h("p", { class: "hover-state" }, stateIcon(cell.st, cell.f), stateText(cell)),
    marksOf(cell).map((mark) => h("p", { class: "hover-state" }, stateIcon(mark), mark)),
    parts.length === 0 && fact("claim", claimsOf(cell)),
    parts.length === 0 && fact("pod", podsOf(cell)),
    parts.length > 0 &&
      h(
        "ul",
        { class: "hover-parts" },
        parts.slice(0, MOST_PARTS).map((part) =>
          h("li", null, stateIcon(part.st), h("span", { class: "mono" }, partName(key, part.k)), " ", part.u?.length || part.h?.length ? some(part.u?.length ? part.u : part.h ?? []) : part.st),
        ),
        parts.length > MOST_PARTS && h("li", null, `and ${parts.length - MOST_PARTS} more`),
      ),
  ].flat();
}

/**
 * @param {string} label
 * @param {string[]} values
 */
function fact(label, values) {
  return values.length > 0 && h("p", null, h("span", { class: "quiet" }, `${label} `), some(values));
}
