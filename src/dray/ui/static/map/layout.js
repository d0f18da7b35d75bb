/**
 * Places cards and cells: from groups and a width to rectangles. The screen, the export and the print use the same.
 */
import { driverOf } from "../model/fleet.js";

/** @typedef {import("../model/fleet.js").Fleet} Fleet */
/** @typedef {import("../model/groups.js").Group} Group */
/** @typedef {"large" | "medium" | "small" | "tiny"} Size */
/** @typedef {{width: number, height: number, gap: number, columns: number, span: number, head: number, pad: number, space: number}} Measures */
/** @typedef {{key: string, card: PlacedCard, x: number, y: number, w: number, h: number}} Box */
/** @typedef {{name: string, x: number, y: number, w: number, h: number, head: number, boxes: Box[], index: number}} PlacedCard */
/** @typedef {{y: number, h: number, cards: PlacedCard[]}} Line */
/** @typedef {{title: string, count: number, nodes: number, y: number}} Heading */
/** @typedef {{size: Size, width: number, height: number, lines: Line[], headings: Heading[], cards: PlacedCard[], boxes: Map<string, Box>}} Layout */

/** `span` is how many cells a GPU with slots is wide. @type {Record<Size, Measures>} */
export const MEASURES = {
  large: { width: 150, height: 62, gap: 8, columns: 2, span: 2, head: 34, pad: 12, space: 14 },
  medium: { width: 40, height: 40, gap: 5, columns: 8, span: 4, head: 30, pad: 10, space: 12 },
  small: { width: 15, height: 15, gap: 3, columns: 8, span: 2, head: 21, pad: 7, space: 8 },
  tiny: { width: 9, height: 9, gap: 2, columns: 8, span: 1, head: 0, pad: 4, space: 4 },
};
/** The number of cells up to which a size is chosen by itself. */
const MOST = { large: 48, medium: 700, small: 4000 };
export const HEADING = 34;
const MOST_STRETCH = 1.2;
/** The most width that a large cell takes. */
const MOST_LARGE = 240;
const LEAST_CARD = { large: 150, medium: 130, small: 96, tiny: 8 };

/**
 * The size for a number of cells.
 *
 * @param {number} cells
 * @returns {Size}
 */
export function suitable(cells) {
  if (cells <= MOST.large) {
    return "large";
  }
  if (cells <= MOST.medium) {
    return "medium";
  }
  return cells <= MOST.small ? "small" : "tiny";
}

/**
 * @param {Fleet} fleet
 * @param {Group[]} groups
 * @param {number} width
 * @param {Size} size
 * @returns {Layout}
 */
export function arrange(fleet, groups, width, size) {
  /** @type {Layout} */
  const layout = { size, width, height: 0, lines: [], headings: [], cards: [], boxes: new Map() };
  let y = 0;
  for (const group of groups) {
    if (group.title) {
      layout.headings.push({ title: group.title, count: group.count, nodes: group.cards.length, y });
      y += HEADING;
    }
    y = arrangeGroup(fleet, group, layout, y) + (group.title ? 10 : 0);
  }
  layout.height = Math.max(0, y - MEASURES[size].space);
  return layout;
}

/**
 * @param {Fleet} fleet
 * @param {Group} group
 * @param {Layout} layout
 * @param {number} top
 */
function arrangeGroup(fleet, group, layout, top) {
  // The cells of a single node have the width of the page to themselves.
  const isAlone = layout.size === "large" && group.cards.length === 1;
  const measures = isAlone ? { ...MEASURES.large, columns: 2 * MEASURES.large.columns } : MEASURES[layout.size];
  const most = Math.max(1, Math.floor((layout.width - 2 * measures.pad + measures.gap) / (measures.width + measures.gap)));
  const columns = Math.min(most, Math.max(1, ...group.cards.map((card) => columnsOf(fleet, card.keys, measures))));
  const least = Math.max(LEAST_CARD[layout.size], columns * (measures.width + measures.gap) - measures.gap + 2 * measures.pad);
  const across = Math.max(1, Math.floor((layout.width + measures.space) / (least + measures.space)));
  const { cardWidth, cellWidth } = widths(layout, measures, least, across, columns);
  let y = top;
  for (let first = 0; first < group.cards.length; first += across) {
    /** @type {PlacedCard[]} */
    const cards = group.cards.slice(first, first + across).map((card, at) => {
      const placed = { name: card.name, x: at * (cardWidth + measures.space), y, w: cardWidth, h: 0, head: measures.head, boxes: [], index: layout.cards.length + at };
      placeCells(fleet, card.keys, placed, measures, columns, cellWidth);
      return placed;
    });
    const height = Math.max(...cards.map((card) => card.h));
    for (const card of cards) {
      layout.cards.push(card);
      for (const box of card.boxes) {
        layout.boxes.set(box.key, box);
      }
    }
    layout.lines.push({ y, h: height, cards });
    y += height + measures.space;
  }
  return y;
}

/**
 * Large cells have text, so they take the width that is there; small ones keep theirs.
 *
 * @param {Layout} layout
 * @param {Measures} measures
 * @param {number} least
 * @param {number} across
 * @param {number} columns
 */
function widths(layout, measures, least, across, columns) {
  if (layout.size !== "large") {
    // Cards end where the page ends, unless they would be much wider than their cells.
    const fair = Math.floor((layout.width + measures.space) / across) - measures.space;
    return { cardWidth: Math.min(Math.max(least, Math.min(fair, least * MOST_STRETCH)), layout.width), cellWidth: measures.width };
  }
  const cardWidth = Math.min(Math.floor((layout.width + measures.space) / across) - measures.space, columns * MOST_LARGE, layout.width);
  return { cardWidth, cellWidth: (cardWidth - 2 * measures.pad + measures.gap) / columns - measures.gap };
}

/**
 * @param {Fleet} fleet
 * @param {string[]} keys
 * @param {Measures} measures
 */
function columnsOf(fleet, keys, measures) {
  let widest = 0;
  let inLine = 0;
  let driver = "";
  for (const key of keys) {
    const span = spanOf(fleet, key, measures);
    if (driverOf(key) !== driver || inLine + span > measures.columns) {
      driver = driverOf(key);
      inLine = 0;
    }
    inLine += span;
    widest = Math.max(widest, inLine);
  }
  return widest;
}

/**
 * @param {Fleet} fleet
 * @param {string} key
 * @param {Measures} measures
 */
function spanOf(fleet, key, measures) {
  const cell = fleet.cells.get(key);
  return cell && fleet.shape(cell).slots > 1 ? measures.span : 1;
}

/**
 * Places the cells of a card; the devices of each driver begin a line.
 *
 * @param {Fleet} fleet
 * @param {string[]} keys
 * @param {PlacedCard} card
 * @param {Measures} measures
 * @param {number} columns
 * @param {number} cellWidth
 */
function placeCells(fleet, keys, card, measures, columns, cellWidth) {
  let column = 0;
  let line = 0;
  let driver = keys.length ? driverOf(keys[0]) : "";
  for (const key of keys) {
    const span = Math.min(columns, spanOf(fleet, key, measures));
    if (column > 0 && (driverOf(key) !== driver || column + span > columns)) {
      column = 0;
      line += 1;
    }
    driver = driverOf(key);
    card.boxes.push({
      key,
      card,
      x: card.x + measures.pad + column * (cellWidth + measures.gap),
      y: card.y + measures.head + (measures.head ? 0 : measures.pad) + line * (measures.height + measures.gap),
      w: span * (cellWidth + measures.gap) - measures.gap,
      h: measures.height,
    });
    column += span;
  }
  const lines = keys.length ? line + 1 : 0;
  const cells = lines * (measures.height + measures.gap) - (lines ? measures.gap : 0);
  card.h = measures.head + (measures.head ? 0 : measures.pad) + cells + (lines ? measures.pad : measures.head ? 0 : measures.height);
}

/**
 * The lines that touch a range of y.
 *
 * @param {Layout} layout
 * @param {number} top
 * @param {number} bottom
 */
export function linesBetween(layout, top, bottom) {
  const { lines } = layout;
  let low = 0;
  let high = lines.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lines[middle].y + lines[middle].h < top) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  let end = low;
  while (end < lines.length && lines[end].y <= bottom) {
    end += 1;
  }
  return lines.slice(low, end);
}

/**
 * What is at a place: a cell, the head of a card, or nothing.
 *
 * @param {Layout} layout
 * @param {number} x
 * @param {number} y
 * @returns {{card: PlacedCard, box: Box | null} | null}
 */
export function hit(layout, x, y) {
  for (const line of linesBetween(layout, y, y)) {
    for (const card of line.cards) {
      if (x >= card.x && x < card.x + card.w && y >= card.y && y < card.y + card.h) {
        const slack = MEASURES[layout.size].gap / 2;
        const box = card.boxes.find((each) => x >= each.x - slack && x < each.x + each.w + slack && y >= each.y - slack && y < each.y + each.h + slack);
        return { card, box: box ?? null };
      }
    }
  }
  return null;
}

/**
 * The cell to which an arrow key leads.
 *
 * @param {Layout} layout
 * @param {Box} from
 * @param {"ArrowUp" | "ArrowDown" | "ArrowLeft" | "ArrowRight"} arrow
 * @returns {Box | null}
 */
export function neighbour(layout, from, arrow) {
  if (arrow === "ArrowLeft" || arrow === "ArrowRight") {
    return beside(layout, from, arrow === "ArrowLeft" ? -1 : 1);
  }
  const sign = arrow === "ArrowUp" ? -1 : 1;
  const middle = from.x + from.w / 2;
  let best = null;
  let least = Infinity;
  const at = layout.lines.findIndex((line) => line.cards.includes(from.card));
  for (let index = at; layout.lines[index]; index += sign) {
    for (const box of layout.lines[index].cards.flatMap((card) => card.boxes)) {
      const down = (box.y - from.y) * sign;
      const across = Math.max(0, Math.abs(box.x + box.w / 2 - middle) - box.w / 2);
      if (down > 1 && down + 2 * across < least) {
        least = down + 2 * across;
        best = box;
      }
    }
    if (best && index !== at) {
      break;
    }
  }
  return best;
}

/**
 * @param {Layout} layout
 * @param {Box} from
 * @param {-1 | 1} step
 */
function beside(layout, from, step) {
  const own = from.card.boxes[from.card.boxes.indexOf(from) + step];
  if (own) {
    return own;
  }
  for (let index = from.card.index + step; layout.cards[index]; index += step) {
    const boxes = layout.cards[index].boxes;
    if (boxes.length) {
      return boxes[step > 0 ? 0 : boxes.length - 1];
    }
  }
  return null;
}
