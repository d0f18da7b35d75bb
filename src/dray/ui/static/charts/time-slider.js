/**
 * `<time-slider>`: chooses a moment of the recorded time. Above the slider is how many devices were held, and where
 * nothing was recorded.
 */
import { button, choice, fill, h, labelled, set, settled, svg } from "../base/dom.js";
import { DAY, HOUR, MINUTE, inputValue, local, tick, ticks, utc } from "../base/times.js";
import { gapMark } from "./gap-mark.js";

/** @typedef {import("../base/types.js").Gap} Gap */
/** @typedef {{since: number, until: number, at: number, isNow: boolean, range: string, gaps: Gap[], held: [time: number, share: number][]}} SliderState */

/** @type {[string, string][]} */
export const RANGES = [
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["6h", "6 hours"],
  ["1d", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["all", "all"],
];
/** @type {Record<string, number>} */
const LENGTHS = { "15m": 15 * MINUTE, "1h": HOUR, "6h": 6 * HOUR, "1d": DAY, "7d": 7 * DAY, "30d": 30 * DAY };
const HEIGHT = 44;
const WIDTH = 1000;
const SLIDE_PAUSE = 60;
const LEAST = 10_000;
/** Labels that would reach over the edge are left out. */
const EDGE = 0.04;

/**
 * The span of a range that ends now.
 *
 * @param {string} range
 * @param {number | null} first since when there is history
 * @param {number} now
 */
export function spanOf(range, first, now) {
  const length = LENGTHS[range];
  return { since: length ? now - length : Math.min(first ?? now - HOUR, now - LEAST), until: now };
}

export class TimeSlider extends HTMLElement {
  #range = h("input", { type: "range", step: 1, "aria-label": "Moment" });
  #time = h("input", { type: "datetime-local", step: 1 });
  #backdrop = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "slider-backdrop", "aria-hidden": "true" });
  #ticks = h("div", { class: "slider-ticks", "aria-hidden": "true" });
  #said = h("output", { class: "slider-time" });
  #span = choice(RANGES, "1h", (value) => this.#emit("span", value));
  /** @type {SliderState | null} */
  #state = null;
  #isSliding = false;
  #slide = settled((/** @type {number} */ at) => this.#emit("moment", at), SLIDE_PAUSE);

  connectedCallback() {
    this.#range.addEventListener("input", () => {
      this.#isSliding = true;
      const at = Number(this.#range.value) * 1000;
      this.#say(at, false);
      this.#slide(at);
    });
    this.#range.addEventListener("change", () => {
      this.#isSliding = false;
    });
    this.#time.addEventListener("change", () => {
      const at = new Date(this.#time.value).getTime();
      if (!Number.isNaN(at)) {
        this.#emit("moment", at);
      }
    });
    const step = (/** @type {number} */ by) => () => this.#state && this.#emit("moment", this.#state.at + by);
    fill(
      this,
      h(
        "div",
        { class: "slider-bar" },
        this.#said,
        h(
          "div",
          { class: "steps", role: "group", "aria-label": "Steps" },
          button("−1 h", step(-HOUR), { "aria-label": "One hour earlier" }),
          button("−1 min", step(-MINUTE), { "aria-label": "One minute earlier" }),
          button("+1 min", step(MINUTE), { "aria-label": "One minute later" }),
          button("+1 h", step(HOUR), { "aria-label": "One hour later" }),
          button("Now", () => this.#emit("moment", null)),
        ),
        labelled("Moment", this.#time),
        labelled("Span", this.#span),
      ),
      h("div", { class: "slider-track" }, this.#backdrop, this.#range, this.#ticks),
    );
  }

  /** @param {SliderState} state */
  show(state) {
    this.#state = state;
    const [since, until] = [Math.floor(state.since / 1000), Math.ceil(state.until / 1000)];
    set(this.#range, "min", since);
    set(this.#range, "max", until);
    this.#span.value = state.range;
    if (!this.#isSliding) {
      this.#range.value = String(Math.round(state.at / 1000));
      if (document.activeElement !== this.#time) {
        this.#time.value = inputValue(state.at);
      }
      this.#say(state.at, state.isNow);
    }
    this.#draw(state);
  }

  /**
   * @param {number} at
   * @param {boolean} isNow
   */
  #say(at, isNow) {
    const text = isNow ? `Now, ${local(at)}` : local(at);
    this.#said.textContent = text;
    this.#said.title = utc(at);
    this.#range.setAttribute("aria-valuetext", text);
  }

  /** @param {SliderState} state */
  #draw(state) {
    const x = (/** @type {number} */ time) => ((time - state.since) / Math.max(1, state.until - state.since)) * WIDTH;
    const kept = state.held.filter(([time]) => time >= state.since && time <= state.until);
    let path = `M${kept.length ? x(kept[0][0]) : 0} ${HEIGHT}`;
    for (const [time, share] of kept) {
      path += `H${Math.round(x(time) * 10) / 10}V${Math.round((1 - share) * (HEIGHT - 4) * 10) / 10 + 4}`;
    }
    path += `H${WIDTH}V${HEIGHT}Z`;
    fill(
      this.#backdrop,
      kept.length > 0 && svg("path", { d: path, class: "held-area" }),
      state.gaps.flatMap(([since, until]) => {
        const from = Math.max(0, x(Date.parse(since)));
        const to = Math.min(WIDTH, until ? x(Date.parse(until)) : WIDTH);
        return to > from ? gapMark(from, 0, Math.max(2, to - from), HEIGHT) : [];
      }),
    );
    fill(
      this.#ticks,
      ticks(state.since, state.until, innerWidth < 700 ? 4 : 9).filter((at) => x(at) > WIDTH * EDGE && x(at) < WIDTH * (1 - EDGE)).map((at) => {
        const label = h("span", null, tick(at, state.until - state.since));
        label.style.setProperty("left", `${x(at) / (WIDTH / 100)}%`);
        return label;
      }),
    );
  }

  /**
   * @param {"moment" | "span"} name
   * @param {number | string | null} value
   */
  #emit(name, value) {
    this.dispatchEvent(new CustomEvent(name, { detail: value }));
  }
}

customElements.define("time-slider", TimeSlider);
