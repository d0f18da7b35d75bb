/**
 * Draws who held a device and its partitions from when to when, with taints and health below, and gaps of the recorder.
 */
import { h, svg } from "../base/dom.js";
import { ofClaim, ofPod } from "../base/routes.js";
import { duration, local, tick, ticks, timeElement } from "../base/times.js";
import { byName, some } from "../base/words.js";
import { deviceOf } from "../model/fleet.js";
import { figure } from "./figure.js";
import { gapMark } from "./gap-mark.js";

/** @typedef {import("../base/types.js").DeviceHistory} DeviceHistory */
/** @typedef {import("../base/types.js").HeldPeriod} HeldPeriod */
/** @typedef {{since: number, until: number}} Span */
/** @typedef {{kind: string, text: string, since: number, until: number, isOpen: boolean, lane: number, href: string | null}} Bar */

const LEFT = 150;
const LEAST_WIDTH = 720;
const LANE = 24;
const BOTTOM = 22;

/**
 * @param {string} title
 * @param {DeviceHistory} history
 * @param {Span} span
 * @param {number | null} cursor
 * @param {number} wanted the width that there is
 * @param {(time: number) => string} link where a moment leads
 */
export function ganttChart(title, history, span, cursor, wanted, link) {
  const width = Math.max(LEAST_WIDTH, wanted);
  const rows = rowsOf(history, span, link);
  const lanes = rows.reduce((sum, row) => sum + row.lanes, 0);
  const height = Math.max(1, lanes) * LANE + BOTTOM;
  const x = (/** @type {number} */ time) => LEFT + ((time - span.since) / Math.max(1, span.until - span.since)) * (width - LEFT - 2);
  let top = 0;
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, class: "gantt-chart", role: "group", "aria-label": `${title}: ${rows.length ? "who held it, over time" : "nobody held it"}` },
    ticks(span.since, span.until, 8).map((at) => [
      svg("line", { x1: x(at), x2: x(at), y1: 0, y2: height - BOTTOM, class: "axis" }),
      svg("text", { x: x(at), y: height - 6, class: "tick", "text-anchor": "middle" }, tick(at, span.until - span.since)),
    ]).flat(),
    history.gaps.flatMap(([since, until]) => {
      const from = x(Math.max(span.since, Date.parse(since)));
      const to = x(Math.min(span.until, until ? Date.parse(until) : span.until));
      return to > from ? gapMark(from, 0, Math.max(1, to - from), height - BOTTOM) : [];
    }),
    rows.map((row) => {
      const y = top;
      top += row.lanes * LANE;
      return [
        svg("text", { x: 0, y: y + 16, class: "row-name" }, shortened(row.name, 22), svg("title", null, row.name)),
        svg("line", { x1: 0, x2: width, y1: y, y2: y, class: "axis" }),
        ...row.bars.map((bar) => drawn(bar, x, y, span)),
      ];
    }).flat(),
    cursor !== null && cursor >= span.since && cursor <= span.until && svg("line", { x1: x(cursor), x2: x(cursor), y1: 0, y2: height - BOTTOM, class: "cursor" }),
  );
  return figure(title, h("div", { class: "scroll-x", tabindex: 0, role: "region", "aria-label": title }, drawing), ["Device", "Claim or mark", "Pods", "User", "From", "To", "Length"], () => tableRows(history, span));
}

/**
 * All that is drawn, the earliest first.
 *
 * @param {DeviceHistory} history
 * @param {Span} span
 */
function tableRows(history, span) {
  const start = new Date(span.since).toISOString();
  return [
    ...history.periods.map((period) => ({ ...period, cells: periodCells(period) })),
    ...history.marks.map((mark) => ({ ...mark, cells: [mark.device ? deviceOf(mark.device) : "–", `${kindOf(mark)}: ${mark.key || mark.kind}`, "–", "–"] })),
    ...history.gaps
      .map(([since, until]) => ({ since: Date.parse(since) < span.since ? start : since, until, cells: ["–", "not recorded", "–", "–"] }))
      .filter((gap) => Date.parse(gap.since) < span.until && (!gap.until || Date.parse(gap.until) > span.since)),
  ]
    .sort((one, other) => Date.parse(one.since) - Date.parse(other.since))
    .map(({ cells, since, until }) => [...cells, timeElement(since), timeElement(until, "still"), duration((until ? Date.parse(until) : Date.now()) - Date.parse(since))]);
}

/** @param {HeldPeriod} period */
function periodCells(period) {
  return [
    deviceOf(period.device),
    // A claim that the person may not see has no name.
    period.claim.includes("/") ? h("a", { href: ofClaim(period.claim) }, period.claim) : period.claim,
    period.pods.map((pod, at) => [at > 0 && ", ", h("a", { href: ofPod(pod) }, pod)]).flat(),
    period.user || "–",
  ];
}

/** @param {import("../base/types.js").MarkPeriod} mark */
function kindOf(mark) {
  return /health/.test(mark.kind) || /unhealthy/.test(mark.key) ? "unhealthy" : "tainted";
}

/**
 * Scrolls a chart that is wider than the window to its chosen moment, else to its end.
 *
 * @param {Element} frame
 * @param {number} [before] where it was
 */
export function scrollToMoment(frame, before) {
  const region = frame.querySelector(".scroll-x");
  const cursor = region?.querySelector(".cursor")?.getAttribute("x1");
  if (region) {
    region.scrollLeft = before ?? (cursor ? Number(cursor) - region.clientWidth / 2 : region.scrollWidth);
  }
}

/**
 * @param {DeviceHistory} history
 * @param {Span} span
 * @param {(time: number) => string} link
 */
function rowsOf(history, span, link) {
  /** @type {Map<string, Bar[]>} */
  const barsByRow = new Map();
  const add = (/** @type {string} */ name, /** @type {Omit<Bar, "lane">} */ bar) => {
    barsByRow.set(name, [...(barsByRow.get(name) ?? []), { ...bar, lane: 0 }]);
  };
  for (const period of history.periods) {
    const since = Date.parse(period.since);
    add(deviceOf(period.device), {
      kind: "held",
      text: `${period.pods.length ? some(period.pods) : period.claim}`,
      since,
      until: period.until ? Date.parse(period.until) : span.until,
      isOpen: !period.until,
      href: link(Math.max(since, span.since)),
    });
  }
  for (const mark of history.marks) {
    const since = Date.parse(mark.since);
    add(mark.device ? `${deviceOf(mark.device)}: taints, health` : "taints, health", {
      kind: kindOf(mark),
      text: mark.key || mark.kind,
      since,
      until: mark.until ? Date.parse(mark.until) : span.until,
      isOpen: !mark.until,
      href: link(Math.max(since, span.since)),
    });
  }
  return [...barsByRow]
    .sort(([one], [other]) => byName(one, other))
    .map(([name, bars]) => ({ name, bars, lanes: stacked(bars.filter((bar) => bar.until >= span.since && bar.since <= span.until)) }));
}

/**
 * Gives each bar the first lane that is free then, and returns the number of lanes: holders of a shared device overlap.
 *
 * @param {Bar[]} bars
 */
function stacked(bars) {
  /** @type {number[]} */
  const ends = [];
  for (const bar of [...bars].sort((one, other) => one.since - other.since)) {
    const free = ends.findIndex((end) => end <= bar.since);
    bar.lane = free < 0 ? ends.length : free;
    ends[bar.lane] = bar.until;
  }
  return Math.max(1, ends.length);
}

/**
 * @param {Bar} bar
 * @param {(time: number) => number} x
 * @param {number} top
 * @param {Span} span
 */
function drawn(bar, x, top, span) {
  if (bar.until < span.since || bar.since > span.until) {
    return null;
  }
  const from = x(Math.max(bar.since, span.since));
  const to = Math.max(from + 2, x(Math.min(bar.until, span.until)));
  const y = top + bar.lane * LANE + 3;
  const length = duration(bar.until - bar.since);
  const words = `${bar.text}, ${bar.kind === "held" ? "" : `${bar.kind}, `}from ${local(bar.since)} ${bar.isOpen ? "until now" : `to ${local(bar.until)}`}, ${length}`;
  const link = svg(
    "a",
    { href: bar.href, "aria-label": words },
    svg("title", null, words),
    svg("rect", { x: from, y, width: to - from, height: LANE - 6, rx: 3, class: `bar ${bar.kind}` }),
    to - from > 44 && svg("text", { x: from + 6, y: y + 13, class: `bar-text ${bar.kind}` }, fitting(bar.text, Math.floor((to - from - 10) / 6.8))),
  );
  return link;
}

/**
 * A name that fits: without its namespace where that is too long.
 *
 * @param {string} text
 * @param {number} most
 */
function fitting(text, most) {
  return shortened(text.length <= most ? text : text.slice(text.indexOf("/") + 1), most);
}

/**
 * @param {string} text
 * @param {number} most
 */
function shortened(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.max(0, most - 1))}…`;
}
