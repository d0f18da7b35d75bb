/**
 * Draws a time that was not recorded: hatched, so that not only its colour tells it from what was free or held.
 */
import { svg } from "../base/dom.js";

const STEP = 7;
let drawn = 0;

/**
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 * @returns {SVGElement[]}
 */
export function gapMark(x, y, width, height) {
  drawn += 1;
  const id = `gap-${drawn}`;
  return [
    svg("pattern", { id, width: STEP, height: STEP, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("rect", { width: STEP, height: STEP, class: "gap-ground" }), svg("rect", { width: 2, height: STEP, class: "gap-line" })),
    svg("rect", { x, y, width, height, class: "gap", fill: `url(#${id})` }, svg("title", null, "not recorded")),
  ];
}
