/**
 * Draws how many devices of a class were held, and how many there were, over time; gaps of the recorder are hatched.
 */
import { svg } from "../base/dom.js";
import { tick, ticks, timeElement } from "../base/times.js";
import { number } from "../base/words.js";
import { figure } from "./figure.js";
import { gapMark } from "./gap-mark.js";

/** @typedef {import("../base/types.js").UsagePoint} UsagePoint */
/** @typedef {import("../base/types.js").Gap} Gap */
/** @typedef {{since: number, until: number}} Span */
/** @typedef {{x: (time: number) => number, y: (amount: number) => number}} Scale */

const LEAST_WIDTH = 240;
const HEIGHT = 132;
const LEFT = 34;
const BOTTOM = 20;
const TOP = 8;

/**
 * @param {string} name
 * @param {UsagePoint[]} points
 * @param {Gap[]} gaps
 * @param {Span} span
 * @param {number} wanted the width that there is
 */
export function usageChart(name, points, gaps, span, wanted) {
  const width = Math.max(LEAST_WIDTH, Math.round(wanted));
  const most = Math.max(1, ...points.map((point) => Math.max(point.total, point.held)));
  /** @type {Scale} */
  const scale = {
    x: (time) => LEFT + ((time - span.since) / Math.max(1, span.until - span.since)) * (width - LEFT - 4),
    y: (amount) => TOP + (1 - amount / most) * (HEIGHT - TOP - BOTTOM),
  };
  const last = points.at(-1);
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${width} ${HEIGHT}`, class: "usage-chart", role: "img", "aria-label": `${name}: ${last ? `${last.held} of ${last.total} held at the end` : "no data"}` },
    [0, most].map((amount) => [
      svg("line", { x1: LEFT, x2: width - 4, y1: scale.y(amount), y2: scale.y(amount), class: "axis" }),
      svg("text", { x: LEFT - 6, y: scale.y(amount) + 4, class: "tick", "text-anchor": "end" }, number(amount)),
    ]).flat(),
    timeTicks(scale, span, width),
    gapMarks(gaps, scale, span),
    runs(points, gaps).map((run) => [
      svg("path", { d: stepPath(run, scale, (point) => point.held, scale.y(0)), class: "held-area" }),
      svg("path", { d: stepPath(run, scale, (point) => point.held), class: "held-line" }),
      svg("path", { d: stepPath(run, scale, (point) => point.total), class: "total-line" }),
      run.some((point) => point.waiting) && svg("path", { d: stepPath(run, scale, (point) => Math.min(most, point.waiting ?? 0)), class: "waiting-line" }),
    ]).flat(),
  );
  return figure(name, drawing, ["Time", ">Total", ">Held", ">Waiting"], () => points.map((point) => [timeElement(point.time), number(point.total), number(point.held), point.waiting === null ? "–" : number(point.waiting)]));
}

/**
 * @param {Scale} scale
 * @param {Span} span
 * @param {number} width
 */
function timeTicks(scale, span, width) {
  return ticks(span.since, span.until, Math.max(2, Math.floor(width / 90))).filter((at) => scale.x(at) < width - 20).map((at) => svg("text", { x: scale.x(at), y: HEIGHT - 5, class: "tick", "text-anchor": "middle" }, tick(at, span.until - span.since)));
}

/**
 * @param {Gap[]} gaps
 * @param {Scale} scale
 * @param {Span} span
 */
function gapMarks(gaps, scale, span) {
  return gaps.flatMap(([since, until]) => {
    const from = scale.x(Math.max(span.since, Date.parse(since)));
    const to = scale.x(Math.min(span.until, until ? Date.parse(until) : span.until));
    return to > from ? gapMark(from, TOP, Math.max(1, to - from), HEIGHT - TOP - BOTTOM) : [];
  });
}

/**
 * The points between the gaps.
 *
 * @param {UsagePoint[]} points
 * @param {Gap[]} gaps
 */
function runs(points, gaps) {
  /** @type {UsagePoint[][]} */
  const found = [[]];
  for (const point of points) {
    const at = Date.parse(point.time);
    if (gaps.some(([since, until]) => at >= Date.parse(since) && (!until || at < Date.parse(until)))) {
      found.push([]);
    } else {
      found.at(-1)?.push(point);
    }
  }
  return found.filter((run) => run.length);
}

/**
 * A line in steps: an amount holds until the next one.
 *
 * @param {UsagePoint[]} points
 * @param {Scale} scale
 * @param {(point: UsagePoint) => number} amount
 * @param {number} [floor] closes the area below
 */
function stepPath(points, scale, amount, floor) {
  const places = points.map((point) => [scale.x(Date.parse(point.time)), scale.y(amount(point))].map((value) => Math.round(value * 10) / 10));
  let path = `M${places[0][0]} ${places[0][1]}`;
  for (const [x, y] of places.slice(1)) {
    path += `H${x}V${y}`;
  }
  return floor === undefined ? path : `${path}V${floor}H${places[0][0]}Z`;
}
