/**
 * Two surfaces with the same strokes: a canvas for the screen and SVG for documents.
 */
import { set, svg } from "../base/dom.js";

/** @typedef {{fill?: string, stroke?: string, width?: number, dash?: number[], radius?: number}} Style */
/** @typedef {{size: number, color: string, weight?: number, anchor?: "start" | "middle" | "end", width?: number, mono?: boolean}} TextStyle */
/** @typedef {[number, number]} Point */
/**
 * @typedef {object} Surface
 * @property {(x: number, y: number, w: number, h: number, style: Style) => void} rect
 * @property {(segments: [Point, Point][], color: string, width: number) => void} lines
 * @property {(points: Point[], color: string, edge?: string) => void} polygon
 * @property {(x: number, y: number, radius: number, color: string, edge?: string) => void} circle
 * @property {(text: string, x: number, y: number, style: TextStyle) => void} text
 * @property {(value: number) => void} alpha
 */

export const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';
export const MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", "Liberation Mono", monospace';

/** @param {TextStyle} style */
function font(style) {
  return `${style.weight ?? 400} ${style.size}px ${style.mono ? MONO : SANS}`;
}

/** Remembers what shortened texts look like: measuring costs more than drawing. @type {Map<string, string>} */
const SHORTENED = new Map();
const MOST_REMEMBERED = 5000;
const MEASURING = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/**
 * @param {string} text
 * @param {TextStyle} style
 */
function fitted(text, style) {
  if (style.width === undefined) {
    return text;
  }
  const id = `${font(style)}\n${Math.floor(style.width)}\n${text}`;
  const known = SHORTENED.get(id);
  if (known !== undefined) {
    return known;
  }
  MEASURING.font = font(style);
  let shown = text.length > 300 ? `${text.slice(0, 300)}…` : text;
  if (MEASURING.measureText(shown).width > style.width) {
    let low = 0;
    let high = shown.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (MEASURING.measureText(`${text.slice(0, middle)}…`).width <= style.width) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    shown = low ? `${text.slice(0, low)}…` : "";
  }
  if (SHORTENED.size > MOST_REMEMBERED) {
    SHORTENED.clear();
  }
  SHORTENED.set(id, shown);
  return shown;
}

/** @implements {Surface} */
export class CanvasSurface {
  /** @param {CanvasRenderingContext2D} context */
  constructor(context) {
    this.context = context;
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {Style} style */
  rect(x, y, w, h, style) {
    const { context } = this;
    if (!style.radius && !style.stroke) {
      context.fillStyle = style.fill ?? "transparent";
      context.fillRect(x, y, w, h);
      return;
    }
    const width = style.stroke ? style.width ?? 1 : 0;
    context.beginPath();
    context.roundRect(x + width / 2, y + width / 2, w - width, h - width, style.radius ?? 0);
    if (style.fill) {
      context.fillStyle = style.fill;
      context.fill();
    }
    if (style.stroke) {
      context.strokeStyle = style.stroke;
      context.lineWidth = width;
      context.setLineDash(style.dash ?? []);
      context.stroke();
      context.setLineDash([]);
    }
  }

  /** @param {[Point, Point][]} segments @param {string} color @param {number} width */
  lines(segments, color, width) {
    const { context } = this;
    context.beginPath();
    for (const [[x1, y1], [x2, y2]] of segments) {
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
    }
    context.strokeStyle = color;
    context.lineWidth = width;
    context.stroke();
  }

  /** @param {Point[]} points @param {string} color @param {string} [edge] */
  polygon(points, color, edge) {
    const { context } = this;
    context.beginPath();
    points.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    this.#finish(color, edge);
  }

  /** @param {number} x @param {number} y @param {number} radius @param {string} color @param {string} [edge] */
  circle(x, y, radius, color, edge) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.#finish(color, edge);
  }

  /** @param {string} color @param {string} [edge] */
  #finish(color, edge) {
    if (edge) {
      this.context.strokeStyle = edge;
      this.context.lineWidth = 2;
      this.context.stroke();
    }
    this.context.fillStyle = color;
    this.context.fill();
  }

  /** @param {string} text @param {number} x @param {number} y @param {TextStyle} style */
  text(text, x, y, style) {
    const shown = fitted(text, style);
    const { context } = this;
    context.font = font(style);
    context.fillStyle = style.color;
    context.textAlign = style.anchor === "middle" ? "center" : style.anchor ?? "start";
    context.textBaseline = "alphabetic";
    context.fillText(shown, x, y);
  }

  /** @param {number} value */
  alpha(value) {
    this.context.globalAlpha = value;
  }
}

/** @implements {Surface} */
export class SvgSurface {
  #alpha = 1;

  /** @param {SVGElement} parent */
  constructor(parent) {
    this.parent = parent;
  }

  /** @param {SVGElement} element */
  #add(element) {
    if (this.#alpha < 1) {
      set(element, "opacity", this.#alpha);
    }
    this.parent.append(element);
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {Style} style */
  rect(x, y, w, h, style) {
    const width = style.stroke ? style.width ?? 1 : 0;
    this.#add(
      svg("rect", {
        x: round(x + width / 2),
        y: round(y + width / 2),
        width: round(w - width),
        height: round(h - width),
        rx: style.radius || null,
        fill: style.fill ?? "none",
        stroke: style.stroke,
        "stroke-width": width && width !== 1 ? width : null,
        "stroke-dasharray": style.dash?.join(" "),
      }),
    );
  }

  /** @param {[Point, Point][]} segments @param {string} color @param {number} width */
  lines(segments, color, width) {
    const d = segments.map(([[x1, y1], [x2, y2]]) => `M${round(x1)} ${round(y1)}L${round(x2)} ${round(y2)}`).join("");
    this.#add(svg("path", { d, stroke: color, "stroke-width": width, fill: "none" }));
  }

  /** @param {Point[]} points @param {string} color @param {string} [edge] */
  polygon(points, color, edge) {
    this.#add(svg("polygon", { points: points.map((point) => point.map(round).join(",")).join(" "), fill: color, ...edged(edge) }));
  }

  /** @param {number} x @param {number} y @param {number} radius @param {string} color @param {string} [edge] */
  circle(x, y, radius, color, edge) {
    this.#add(svg("circle", { cx: round(x), cy: round(y), r: round(radius), fill: color, ...edged(edge) }));
  }

  /** @param {string} text @param {number} x @param {number} y @param {TextStyle} style */
  text(text, x, y, style) {
    this.#add(
      svg(
        "text",
        {
          x: round(x),
          y: round(y),
          fill: style.color,
          "font-size": style.size,
          "font-weight": style.weight,
          "font-family": style.mono ? MONO : SANS,
          "text-anchor": style.anchor === "start" ? null : style.anchor,
        },
        fitted(text, style),
      ),
    );
  }

  /** @param {number} value */
  alpha(value) {
    this.#alpha = value;
  }
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 100) / 100;
}

/** @param {string | undefined} edge */
function edged(edge) {
  return edge ? { stroke: edge, "stroke-width": 2, "paint-order": "stroke" } : {};
}
