/**
 * Shows times in the browser's zone, with UTC in the title.
 */
import { h } from "./dom.js";

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** The longest span for which a length is given in seconds. */
const SECONDS_UNTIL = 2 * MINUTE;

/** @param {string | number | Date} time */
export function utc(time) {
  return new Date(time).toISOString().replace("T", " ").replace(/(\.000)?Z$/, " UTC");
}

/** @param {string | number | Date} time */
export function local(time) {
  const date = new Date(time);
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return isToday(date) ? clock : `${day(date)} ${clock}`;
}

/** @param {Date} date */
function isToday(date) {
  return date.toDateString() === new Date().toDateString();
}

/** @param {Date} date */
function day(date) {
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** @param {number} number */
function two(number) {
  return String(number).padStart(2, "0");
}

/**
 * The value of an input of type datetime-local.
 *
 * @param {number} time
 */
export function inputValue(time) {
  const date = new Date(time);
  return `${day(date)}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/**
 * A short form for an axis of that length.
 *
 * @param {number} time
 * @param {number} span
 */
export function tick(time, span) {
  const date = new Date(time);
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (span < 10 * MINUTE) {
    return `${clock}:${two(date.getSeconds())}`;
  }
  if (span < 2 * DAY) {
    return clock;
  }
  const short = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return span < 5 * DAY ? `${short} ${clock}` : short;
}

/**
 * How long it took, in one or two units.
 *
 * @param {number} milliseconds
 */
export function duration(milliseconds) {
  const span = Math.max(0, milliseconds);
  if (span < SECONDS_UNTIL) {
    return `${Math.floor(span / 1000)} s`;
  }
  if (span < 2 * HOUR) {
    return `${Math.floor(span / MINUTE)} min`;
  }
  if (span < 2 * DAY) {
    const minutes = Math.floor((span % HOUR) / MINUTE);
    return `${Math.floor(span / HOUR)} h${minutes ? ` ${minutes} min` : ""}`;
  }
  return `${Math.floor(span / DAY)} d ${Math.floor((span % DAY) / HOUR)} h`;
}

/**
 * An element with the time; UTC is in its title.
 *
 * @param {string | null | undefined} time
 * @param {string} [absent] the text if there is no time
 */
export function timeElement(time, absent = "–") {
  if (!time || Number.isNaN(Date.parse(time))) {
    return h("span", null, time || absent);
  }
  return h("time", { datetime: time, title: utc(time) }, local(time));
}

/**
 * An element with the time since then, kept up to date.
 *
 * @param {string} time
 */
export function ageElement(time) {
  const at = Date.parse(time);
  if (Number.isNaN(at)) {
    return h("span", null, time);
  }
  return h("time", { datetime: time, title: `${local(time)} · ${utc(time)}`, "data-age": "" }, duration(Date.now() - at));
}

setInterval(() => {
  for (const element of document.querySelectorAll("time[data-age]")) {
    const at = Date.parse(element.getAttribute("datetime") ?? "");
    const text = duration(Date.now() - at);
    if (element.textContent !== text) {
      element.textContent = text;
    }
  }
}, 1000);

/**
 * Round times within a span, at most `most` of them.
 *
 * @param {number} since
 * @param {number} until
 * @param {number} most
 */
export function ticks(since, until, most) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000];
  const step = (steps.find((seconds) => (until - since) / (seconds * 1000) <= most) ?? 2592000) * 1000;
  const shift = new Date(since).getTimezoneOffset() * MINUTE;
  const found = [];
  for (let at = Math.ceil((since - shift) / step) * step + shift; at <= until; at += step) {
    found.push(at);
  }
  return found;
}
