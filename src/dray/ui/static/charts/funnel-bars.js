/**
 * Draws the funnel of an explanation: how many devices each check leaves.
 */
import { h, sentence, svg } from "../base/dom.js";
import { number } from "../base/words.js";
import { figure } from "./figure.js";

/** @typedef {import("../base/types.js").FunnelStep} FunnelStep */

/** @param {FunnelStep[]} steps */
export function funnelBars(steps) {
  const most = Math.max(1, ...steps.map((step) => Math.max(step.of, step.left)));
  const firstZero = steps.findIndex((step) => step.left === 0);
  const list = h(
    "ol",
    { class: "funnel" },
    steps.map((step, at) =>
      h(
        "li",
        { class: at === firstZero && "funnel-end" },
        h("span", { class: "funnel-count" }, number(step.left)),
        bar(step, most),
        h("span", { class: "funnel-label" }, sentence(step.label)),
      ),
    ),
  );
  return figure("Devices left after each check", list, ["Check", ">Left", ">Before"], () => steps.map((step) => [step.label, number(step.left), number(step.of)]));
}

/**
 * @param {FunnelStep} step
 * @param {number} most
 */
function bar(step, most) {
  const left = (step.left / most) * 100;
  const before = (step.of / most) * 100;
  return svg(
    "svg",
    { class: "funnel-bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { x: 0, y: 0, width: before, height: 10, class: "lost" }),
    svg("rect", { x: 0, y: 0, width: left, height: 10, class: "left" }),
  );
}
