/**
 * Draws cards and cells on a surface. Each state has a shape of its own beside its colour: free is an empty box, in use a
 * full one, shared is filled from below, blocked is hatched, missing is dashed and crossed.
 */
import { claimsOf, deviceOf, podsOf } from "../model/fleet.js";
import { partName, stateText } from "../model/states.js";
import { counted } from "../base/words.js";
import { HEADING } from "./layout.js";

/** @typedef {import("./surfaces.js").Surface} Surface */
/** @typedef {import("./layout.js").Box} Box */
/** @typedef {import("./layout.js").PlacedCard} PlacedCard */
/** @typedef {import("./layout.js").Size} Size */
/** @typedef {import("./theme.js").Theme} Theme */
/** @typedef {import("../model/fleet.js").Fleet} Fleet */
/** @typedef {import("../base/types.js").Cell} Cell */
/** @typedef {import("../base/types.js").Part} Part */
/** @typedef {{x: number, y: number, w: number, h: number}} Area */

const RADIUS = { large: 5, medium: 4, small: 2, tiny: 1 };
const DIMMED = 0.22;
/** A profile of MIG in the name of a device, with its dot or without. */
const PROFILE = /\d+[cg]\.?\d+gb([+.]me)?/;

/**
 * @param {Surface} surface
 * @param {PlacedCard} card
 * @param {Fleet} fleet
 * @param {Size} size
 * @param {Theme} theme
 */
export function paintCard(surface, card, fleet, size, theme) {
  surface.rect(card.x, card.y, card.w, card.h, { fill: theme.card, stroke: theme.line, radius: size === "tiny" ? 2 : 6 });
  if (!card.head) {
    return;
  }
  const node = fleet.nodes.get(card.name);
  const isSmall = size === "small";
  const pad = isSmall ? 7 : 12;
  const baseline = card.y + (isSmall ? 14 : size === "large" ? 22 : 20);
  const status = statusOf(node);
  const inner = card.w - 2 * pad;
  const right = isSmall ? "" : status || modelsOf(card, fleet);
  // Estimated: the name comes first, the models take what is left.
  const rightWidth = right ? Math.max(0, Math.min(right.length * 7.4 + 12, inner - Math.min(inner * 0.6, card.name.length * 8.2 + 14))) : isSmall && status ? 12 : 0;
  surface.text(card.name, card.x + pad, baseline, {
    size: isSmall ? 11 : 13,
    weight: 600,
    color: status ? theme.muted : theme.ink,
    width: inner - rightWidth,
  });
  if (right) {
    surface.text(right, card.x + card.w - pad, baseline, { size: 12, color: status ? theme.warning : theme.muted, anchor: "end", width: rightWidth });
  } else if (isSmall && status) {
    surface.text(node?.ready ? "‖" : "!", card.x + card.w - pad, baseline, { size: 11, weight: 700, color: theme.warning, anchor: "end" });
  }
}

/**
 * @param {PlacedCard} card
 * @param {Fleet} fleet
 */
function modelsOf(card, fleet) {
  /** @type {Set<string>} */
  const models = new Set();
  for (const box of card.boxes) {
    const cell = fleet.cells.get(box.key);
    const model = cell && fleet.shape(cell).model;
    if (model) {
      models.add(model);
    }
  }
  return card.boxes.length ? [...models].join(", ") : "no devices";
}

/** @param {import("../base/types.js").FleetNode | undefined} node */
export function statusOf(node) {
  if (!node) {
    return "";
  }
  return [node.ready ? "" : "not ready", node.cordoned ? "cordoned" : ""].filter(Boolean).join(", ");
}

/**
 * @param {Surface} surface
 * @param {import("./layout.js").Heading} heading
 * @param {Theme} theme
 */
export function paintHeading(surface, heading, theme) {
  surface.text(`${heading.title}  ·  ${counted(heading.count, "device")}`, 0, heading.y + HEADING - 12, { size: 14, weight: 600, color: theme.ink });
}

/**
 * @param {Surface} surface
 * @param {Box} box
 * @param {Fleet} fleet
 * @param {Size} size
 * @param {Theme} theme
 * @param {boolean} [isDimmed]
 */
export function paintCell(surface, box, fleet, size, theme, isDimmed = false) {
  const cell = fleet.cells.get(box.key);
  if (!cell) {
    return;
  }
  if (isDimmed) {
    surface.alpha(DIMMED);
  }
  const slots = fleet.shape(cell).slots;
  if (size === "large") {
    paintLarge(surface, box, cell, slots, theme);
  } else {
    paintBody(surface, box, box.key, cell, slots, RADIUS[size], theme, size);
    if (size === "medium" && !cell.p?.length && cell.st !== "missing") {
      const color = cell.st === "in use" ? theme.onHeld : theme.ink;
      const ground = cell.st === "blocked" ? theme.blockedTint : cell.st === "free" && slots > 1 ? theme.freeTint : "";
      if (ground) {
        surface.rect(box.x + box.w / 2 - 9, box.y + box.h / 2 - 8, 18, 16, { fill: ground, radius: 3 });
      }
      surface.text(short(box.key), box.x + box.w / 2, box.y + (cell.st === "shared" ? 13 : box.h / 2 + 4), {
        size: cell.st === "shared" ? 11 : 12,
        weight: 500,
        color,
        anchor: "middle",
        width: box.w - 4,
      });
    }
  }
  paintMarks(surface, box, cell.m ?? [], size, theme);
  if (isDimmed) {
    surface.alpha(1);
  }
}

/** @param {string} key */
function short(key) {
  const name = deviceOf(key);
  return /\d+$/.exec(name)?.[0] ?? name.slice(0, 4);
}

/**
 * @param {Surface} surface
 * @param {Area} area
 * @param {string} key
 * @param {Cell} cell
 * @param {number} slots
 * @param {number} radius
 * @param {Theme} theme
 * @param {Size} size
 */
function paintBody(surface, area, key, cell, slots, radius, theme, size) {
  if (cell.p?.length && slots > 1) {
    paintSlots(surface, area, key, cell.p, slots, radius, theme, size);
    return;
  }
  const level = size === "medium" && cell.st === "shared" ? { from: 17, fill: cell.f ?? 0 } : { from: 0, fill: cell.f ?? 0 };
  paintState(surface, area, cell.st, level, radius, theme);
  if (slots > 1 && cell.st === "free" && size !== "tiny") {
    surface.lines(dividers(area, slots), theme.freeFaint, 1);
  }
}

/**
 * @param {Surface} surface
 * @param {Area} area
 * @param {string} state
 * @param {{from: number, fill: number}} level
 * @param {number} radius
 * @param {Theme} theme
 */
export function paintState(surface, area, state, level, radius, theme) {
  const { x, y, w, h } = area;
  switch (state) {
    case "in use":
      surface.rect(x, y, w, h, { fill: theme.held, radius });
      break;
    case "shared": {
      const room = h - level.from - 2;
      const filled = Math.max(1, Math.round((room * Math.min(100, level.fill)) / 100));
      surface.rect(x, y, w, h, { fill: theme.heldTint, stroke: theme.held, radius });
      surface.rect(x + 1, y + h - 1 - filled, w - 2, filled, { fill: theme.held });
      break;
    }
    case "blocked":
      surface.rect(x, y, w, h, { fill: theme.blockedTint, stroke: theme.blocked, radius });
      surface.lines(hatching(area), theme.blocked, 1);
      break;
    case "missing":
      surface.rect(x, y, w, h, { fill: theme.card, stroke: theme.missing, dash: w > 10 ? [3, 2] : [2, 1], radius });
      surface.lines(cross(area), theme.missing, w > 10 ? 1.5 : 1);
      break;
    default:
      surface.rect(x, y, w, h, { fill: theme.freeTint, stroke: theme.free, radius });
  }
}

/**
 * A GPU as its slots: partitions at their places, and holes between them.
 *
 * @param {Surface} surface
 * @param {Area} area
 * @param {string} key
 * @param {Part[]} parts
 * @param {number} slots
 * @param {number} radius
 * @param {Theme} theme
 * @param {Size} size
 */
function paintSlots(surface, area, key, parts, slots, radius, theme, size) {
  const { x, y, w, h } = area;
  surface.rect(x, y, w, h, { fill: theme.hole, stroke: theme.strong, radius });
  if (size !== "tiny") {
    surface.lines(dividers(area, slots), theme.line, 1);
  }
  const inset = { large: 2, medium: 2, small: 1, tiny: 0 }[size];
  for (const part of parts.filter((each) => each.w > 0)) {
    const place = slotArea({ x: x + inset, y: y + inset, w: w - 2 * inset, h: h - 2 * inset }, part, slots);
    paintState(surface, place, part.st, { from: 0, fill: 50 }, Math.max(0, radius - 1), theme);
    if (size === "medium" && place.w > 12) {
      const color = part.st === "in use" ? theme.onHeld : theme.ink;
      surface.text(profile(key, part, place.w), place.x + place.w / 2, place.y + place.h / 2 + 3.5, { size: 10, color, anchor: "middle", width: place.w - 4 });
    }
    paintMarks(surface, place, part.m ?? [], size === "large" ? "small" : size, theme);
  }
}

/**
 * The place of a partition: a gap of one pixel is left to its neighbour.
 *
 * @param {Area} area
 * @param {{o: number, w: number}} part
 * @param {number} slots
 */
export function slotArea(area, part, slots) {
  const from = area.x + (area.w * part.o) / slots;
  const to = area.x + (area.w * (part.o + part.w)) / slots;
  return { x: Math.round(from), y: area.y, w: Math.max(1, Math.round(to) - Math.round(from) - (part.o + part.w < slots && area.w > 20 ? 1 : 0)), h: area.h };
}

/**
 * The profile of a partition, shortened where there is little room.
 *
 * @param {string} key
 * @param {Part} part
 * @param {number} width
 */
function profile(key, part, width) {
  const name = PROFILE.exec(deviceOf(part.k))?.[0].replace(/^(\d+[cg])\.?/, "$1.");
  if (!name) {
    return partName(key, part.k);
  }
  return width < 52 ? name.slice(0, name.indexOf(".")) : name;
}

/**
 * @param {Surface} surface
 * @param {Box} box
 * @param {Cell} cell
 * @param {number} slots
 * @param {Theme} theme
 */
function paintLarge(surface, box, cell, slots, theme) {
  const isSliced = Boolean(cell.p?.length) && slots > 1;
  const edge = { free: theme.line, blocked: theme.line, shared: theme.heldLine, "in use": theme.heldLine, missing: theme.missing }[cell.st];
  const tint = { free: theme.card, blocked: theme.blockedTint, shared: theme.heldTint, "in use": theme.heldTint, missing: theme.card }[cell.st];
  surface.rect(box.x, box.y, box.w, box.h, { fill: isSliced ? theme.card : tint, stroke: edge, dash: cell.st === "missing" ? [4, 3] : undefined, radius: RADIUS.large });
  const inner = box.w - 20;
  const marks = (cell.m?.length ?? 0) * 18;
  if (isSliced) {
    surface.text(deviceOf(box.key), box.x + 10, box.y + 20, { size: 12.5, weight: 600, color: theme.ink, width: inner * 0.6 });
    const taken = (cell.p ?? []).reduce((sum, part) => sum + part.w, 0);
    surface.text(taken < slots ? `${slots - taken} of ${slots} slots open` : "all slots taken", box.x + box.w - 10 - marks, box.y + 20, {
      size: 11,
      color: theme.muted,
      anchor: "end",
      width: inner * 0.4,
    });
    paintLargeSlots(surface, { x: box.x + 9, y: box.y + 28, w: box.w - 18, h: 26 }, box.key, cell.p ?? [], slots, theme);
    return;
  }
  paintState(surface, { x: box.x + 10, y: box.y + 10, w: 12, h: 12 }, cell.st, { from: 0, fill: cell.f ?? 0 }, 2, theme);
  surface.text(deviceOf(box.key), box.x + 28, box.y + 20, { size: 12.5, weight: 600, color: theme.ink, width: inner - 18 - marks });
  const [pod] = podsOf(cell);
  const [claim] = claimsOf(cell);
  const more = Math.max(podsOf(cell).length, claimsOf(cell).length) - 1;
  const who = pod ?? claim;
  surface.text(who ? `${who}${more > 0 ? ` and ${more} more` : ""}` : stateText(cell), box.x + 10, box.y + 38, {
    size: 11.5,
    color: who ? theme.ink : theme.muted,
    width: inner,
  });
  const detail = who ? stateText(cell) : slots > 1 && cell.st === "free" ? `${slots} slots` : "";
  surface.text(detail, box.x + 10, box.y + 53, { size: 11, color: theme.muted, width: inner });
}

/**
 * @param {Surface} surface
 * @param {Area} area
 * @param {string} key
 * @param {Part[]} parts
 * @param {number} slots
 * @param {Theme} theme
 */
function paintLargeSlots(surface, area, key, parts, slots, theme) {
  paintSlots(surface, area, key, parts, slots, 3, theme, "large");
  for (const part of parts.filter((each) => each.w > 0)) {
    const place = slotArea({ x: area.x + 2, y: area.y, w: area.w - 4, h: area.h }, part, slots);
    const isHeld = part.st === "in use";
    const name = part.u?.[0] ?? part.h?.[0];
    const text = place.w > 110 && name ? `${profile(key, part, place.w)} ${name}` : profile(key, part, place.w);
    surface.text(text, place.x + place.w / 2, place.y + 17, { size: 11, weight: 500, color: isHeld ? theme.onHeld : theme.ink, anchor: "middle", width: place.w - 6 });
  }
}

/**
 * @param {Surface} surface
 * @param {Area} area
 * @param {readonly string[]} marks
 * @param {Size} size
 * @param {Theme} theme
 */
export function paintMarks(surface, area, marks, size, theme) {
  const scale = { large: 13, medium: 12, small: 8, tiny: 5 }[size];
  const out = size === "large" ? -7 : size === "tiny" ? 1 : 3;
  const right = area.x + area.w + out;
  const top = area.y - out;
  if (marks.includes("tainted")) {
    const x = right - scale;
    surface.polygon([[x, top + scale], [x + scale / 2, top], [x + scale, top + scale]], theme.tainted, theme.card);
  }
  if (marks.includes("unhealthy")) {
    const x = size === "large" ? right - scale / 2 - (marks.includes("tainted") ? 18 : 0) : right - scale / 2;
    const y = size === "large" ? top + scale / 2 : area.y + area.h + out - scale / 2;
    const half = scale / 2;
    surface.polygon([[x, y - half], [x + half, y], [x, y + half], [x - half, y]], theme.unhealthy, theme.card);
  }
}

/**
 * @param {Area} area
 * @param {number} slots
 * @returns {[[number, number], [number, number]][]}
 */
function dividers({ x, y, w, h }, slots) {
  return Array.from({ length: slots - 1 }, (_, at) => {
    const place = Math.round(x + (w * (at + 1)) / slots) - 0.5;
    return [[place, y + 1], [place, y + h - 1]];
  });
}

/**
 * @param {Area} area
 * @returns {[[number, number], [number, number]][]}
 */
function hatching({ x, y, w, h }) {
  const step = w > 20 ? 6 : 4;
  /** @type {[[number, number], [number, number]][]} */
  const found = [];
  for (let at = step; at < w + h; at += step) {
    found.push([
      [x + Math.max(0, at - h), y + Math.min(at, h)],
      [x + Math.min(at, w), y + Math.max(0, at - w)],
    ]);
  }
  return found;
}

/**
 * @param {Area} area
 * @returns {[[number, number], [number, number]][]}
 */
function cross({ x, y, w, h }) {
  const inset = Math.min(w, h) * 0.28;
  const half = Math.min(w, h) / 2 - inset;
  const [mx, my] = [x + w / 2, y + h / 2];
  return [
    [[mx - half, my - half], [mx + half, my + half]],
    [[mx - half, my + half], [mx + half, my - half]],
  ];
}
