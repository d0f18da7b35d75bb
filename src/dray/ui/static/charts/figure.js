/**
 * The frame of a chart: its title, the drawing and the same numbers as a table.
 */
import { h, table } from "../base/dom.js";

/** @typedef {import("../base/dom.js").Child} Child */

/**
 * @param {string} title
 * @param {Element} drawing
 * @param {string[]} columns
 * @param {() => Child[][]} rows computed when the table is opened
 * @param {Child} [legend]
 */
export function figure(title, drawing, columns, rows, legend) {
  const details = h("details", { class: "twin" }, h("summary", null, "Show as table"));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) {
      details.append(table(title, columns, rows()));
    }
  });
  return h("figure", { class: "chart" }, h("figcaption", null, h("strong", null, title), legend), drawing, details);
}
