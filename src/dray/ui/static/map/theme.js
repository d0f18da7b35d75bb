/**
 * The colours of the map, read from the style sheet, so that both have one home.
 */

/** @typedef {Record<"paper" | "card" | "line" | "strong" | "ink" | "muted" | "accent" | "held" | "heldTint" | "heldLine" | "onHeld" | "free" | "freeTint" | "freeFaint" | "blocked" | "blockedTint" | "missing" | "tainted" | "unhealthy" | "warning" | "hole" | "change", string>} Theme */

/** @type {Record<keyof Theme, string>} */
const PROPERTIES = {
  paper: "--paper",
  card: "--card",
  line: "--line",
  strong: "--line-strong",
  ink: "--ink",
  muted: "--muted",
  accent: "--accent",
  held: "--held",
  heldTint: "--held-tint",
  heldLine: "--held-line",
  onHeld: "--on-held",
  free: "--free",
  freeTint: "--free-tint",
  freeFaint: "--free-faint",
  blocked: "--blocked",
  blockedTint: "--blocked-tint",
  missing: "--missing",
  tainted: "--tainted",
  unhealthy: "--unhealthy",
  warning: "--warning",
  hole: "--hole",
  change: "--change",
};

/** @type {Theme | null} */
let known = null;
/** @type {Set<() => void>} */
const listeners = new Set();

/** @returns {Theme} */
export function theme() {
  if (!known) {
    const style = getComputedStyle(document.documentElement);
    const entries = Object.entries(PROPERTIES).map(([name, property]) => [name, style.getPropertyValue(property).trim() || "#888"]);
    known = /** @type {Theme} */ (Object.fromEntries(entries));
  }
  return known;
}

/**
 * Calls a function whenever the colours change; returns what ends that.
 *
 * @param {() => void} changed
 */
export function onTheme(changed) {
  listeners.add(changed);
  return () => listeners.delete(changed);
}

for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)", "(prefers-contrast: more)", "print"]) {
  matchMedia(query).addEventListener("change", () => {
    known = null;
    for (const changed of listeners) {
      changed();
    }
  });
}
