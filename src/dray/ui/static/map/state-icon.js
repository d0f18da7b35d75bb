/**
 * The shape of a state or mark as a small picture, drawn as in the map; its colours follow the style sheet.
 */
import { svg } from "../base/dom.js";
import { MARKS } from "../model/states.js";
import { paintMarks, paintState } from "./painter.js";
import { SvgSurface } from "./surfaces.js";

const SIDE = 12;

/** The colours by the names of the style sheet. */
const COLORS = /** @type {import("./theme.js").Theme} */ ({
  card: "var(--card)",
  held: "var(--held)",
  heldTint: "var(--held-tint)",
  free: "var(--free)",
  freeTint: "var(--free-tint)",
  blocked: "var(--blocked)",
  blockedTint: "var(--blocked-tint)",
  missing: "var(--missing)",
  tainted: "var(--tainted)",
  unhealthy: "var(--unhealthy)",
});

/**
 * @param {string} state a state or a mark
 * @param {number} [fill]
 */
export function stateIcon(state, fill = 50) {
  const icon = svg("svg", { class: "state-icon", width: SIDE, height: SIDE, viewBox: `0 0 ${SIDE} ${SIDE}`, "aria-hidden": "true" });
  const surface = new SvgSurface(icon);
  if (MARKS.includes(state)) {
    // Marks lie over the corner of a cell: the cell is placed so that they fill the picture.
    paintMarks(surface, { x: -3, y: state === "tainted" ? 3 : -3, w: SIDE, h: SIDE }, [state], "medium", { ...COLORS, card: "none" });
  } else {
    paintState(surface, { x: 0, y: 0, w: SIDE, h: SIDE }, state, { from: 0, fill }, 2, COLORS);
  }
  return icon;
}
