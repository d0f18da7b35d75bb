/**
 * Makes a document of the map: SVG or PNG to download, and SVG for the print.
 */
import { h, svg } from "../base/dom.js";
import { utc } from "../base/times.js";
import { counted, number } from "../base/words.js";
import { MARKS, STATES } from "../model/states.js";
import { counted as countedStates, marked } from "../model/fleet.js";
import { arrange, suitable } from "./layout.js";
import { paintCard, paintCell, paintHeading, paintMarks, paintState } from "./painter.js";
import { CanvasSurface, SvgSurface } from "./surfaces.js";
import { theme } from "./theme.js";

/** @typedef {import("./surfaces.js").Surface} Surface */
/** @typedef {import("./device-map.js").Shown} Shown */
/** @typedef {{title: string, detail: string}} Caption */

const MARGIN = 24;
const TOP = 92;
const WIDTH = 1400;
/** The most pixels that browsers give a canvas, with room to spare. */
const MOST_PIXELS = 120_000_000;
const MOST_SIDE = 16_000;
/** Characters that no XML document can have. */
const NOT_IN_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * @param {Shown} shown
 * @param {number} width
 */
function placed(shown, width) {
  const groups = shown.groups();
  const cells = groups.reduce((sum, group) => sum + group.count, 0);
  return arrange(shown.fleet, groups, width - 2 * MARGIN, shown.size || suitable(cells));
}

/**
 * @param {Surface} surface
 * @param {Shown} shown
 * @param {import("./layout.js").Layout} layout
 * @param {Caption} caption
 */
function paintHead(surface, shown, layout, caption) {
  const colors = theme();
  surface.rect(-MARGIN, -TOP, layout.width + 2 * MARGIN, layout.height + TOP + MARGIN, { fill: colors.paper });
  surface.text(caption.title, 0, -62, { size: 20, weight: 650, color: colors.ink, width: layout.width * 0.6 });
  surface.text(caption.detail, layout.width, -62, { size: 12, color: colors.muted, anchor: "end", width: layout.width * 0.38 });
  const counts = countedStates(cellsOf(shown, layout));
  const marks = marked(cellsOf(shown, layout));
  let x = 0;
  for (const state of [...STATES, ...MARKS]) {
    const amount = counts.get(state) ?? marks.get(state) ?? 0;
    const text = `${number(amount)} ${state}`;
    if (MARKS.includes(state)) {
      paintMarks(surface, { x: x - 3, y: state === "tainted" ? -41 : -47, w: 12, h: 12 }, [state], "medium", colors);
    } else {
      paintState(surface, { x, y: -44, w: 12, h: 12 }, state, { from: 0, fill: 50 }, 2, colors);
    }
    surface.text(text, x + 18, -34, { size: 12, color: colors.ink });
    x += 40 + text.length * 7;
  }
}

/**
 * @param {Shown} shown
 * @param {import("./layout.js").Layout} layout
 */
function cellsOf(shown, layout) {
  return [...layout.boxes.keys()].flatMap((key) => shown.fleet.cells.get(key) ?? []);
}

/**
 * @param {Surface} surface
 * @param {Shown} shown
 * @param {import("./layout.js").Layout} layout
 */
function paintAll(surface, shown, layout) {
  const colors = theme();
  for (const heading of layout.headings) {
    paintHeading(surface, heading, colors);
  }
  for (const card of layout.cards) {
    paintCard(surface, card, shown.fleet, layout.size, colors);
    for (const box of card.boxes) {
      paintCell(surface, box, shown.fleet, layout.size, colors, Boolean(shown.isEmphasised && !shown.isEmphasised(box.key)));
    }
  }
}

/**
 * @param {Shown} shown
 * @param {Caption} caption
 * @param {number} [width]
 */
export function mapAsSvg(shown, caption, width = WIDTH) {
  const layout = placed(shown, width);
  const height = Math.ceil(layout.height + TOP + MARGIN);
  const group = svg("g", { transform: `translate(${MARGIN} ${TOP})` });
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" }, svg("title", null, caption.title), group);
  const surface = new SvgSurface(group);
  paintHead(surface, shown, layout, caption);
  paintAll(surface, shown, layout);
  return root;
}

/**
 * @param {Shown} shown
 * @param {Caption} caption
 * @returns {Promise<Blob>}
 */
async function mapAsPng(shown, caption) {
  const layout = placed(shown, WIDTH);
  const height = Math.ceil(layout.height + TOP + MARGIN);
  const scale = Math.min(2, Math.sqrt(MOST_PIXELS / (WIDTH * height)), MOST_SIDE / height);
  const canvas = h("canvas", { width: Math.round(WIDTH * scale), height: Math.round(height * scale) });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(scale, scale);
  context.translate(MARGIN, TOP);
  const surface = new CanvasSurface(context);
  paintHead(surface, shown, layout, caption);
  paintAll(surface, shown, layout);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the browser could not make a PNG of this size"))), "image/png");
  });
}

/**
 * @param {Shown} shown
 * @param {Caption} caption
 */
function svgBlob(shown, caption) {
  const text = new XMLSerializer().serializeToString(mapAsSvg(shown, caption));
  return new Blob([text.replace(NOT_IN_XML, "\ufffd")], { type: "image/svg+xml" });
}

/**
 * @param {"svg" | "png"} format
 * @param {Shown} shown
 * @param {Caption} caption
 */
export async function download(format, shown, caption) {
  const blob = format === "png" ? await mapAsPng(shown, caption) : svgBlob(shown, caption);
  const address = URL.createObjectURL(blob);
  const stamp = new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-");
  h("a", { href: address, download: `devices-${stamp}.${format}` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/**
 * The words above an exported map.
 *
 * @param {string} cluster
 * @param {number} cells
 * @param {string} time
 */
export function captionOf(cluster, cells, time) {
  return { title: `${cluster}: ${counted(cells, "device")}`, detail: utc(time || Date.now()) };
}
