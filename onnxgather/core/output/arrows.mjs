// Arrows between elements of tensors. They run along the lines of the grids, and cover no number.

import { draw } from "./dom.mjs";

const CORNER = 5; // pixels between an element and the place where its arrow turns
const GUTTERS = { index: 6, source: 12 }; // pixels behind the tensors, by the kind of an arrow
const HEAD = { length: 7, width: 4 }; // pixels

/** Return an arrow from a box to another one, which is beside it or below it. */
export function arrow(kind, from, to) {
  const isBeside = from.panelEnd <= to.panelStart;
  const start = [from.x + from.width, from.y + from.height / 2];
  const below = from.y + from.height;
  const leave = `M${start} L${start[0] + CORNER},${below}`;
  // An arrow from above ends at the line above the element, as another one may leave below it.
  const line = isBeside ? to.y + to.height : to.y;
  const end = [isBeside ? to.x : to.x + to.width, to.y + to.height / 2];
  const side = isBeside ? -1 : 1;
  const way = isBeside ? sideways(from, to, below, line) : around(kind, from, to, line);
  const arrive = `L${end[0] + side * CORNER},${line} L${end}`;
  return draw(
    "g",
    { class: kind },
    draw("path", { d: `${leave} ${way} ${arrive}` }),
    draw("polygon", { points: headOf(end, side, Math.sign(line - end[1])) }),
  );
}

/** Return the way from the end of a tensor to the start of the one beside it. */
export function sideways(from, to, below, line) {
  const middle = (from.panelEnd + to.panelStart) / 2;
  return `H${from.panelEnd} C${middle},${below} ${middle},${line} ${to.panelStart},${line}`;
}

/** Return the way behind the ends of both tensors, down to the lower one. */
export function around(kind, from, to, line) {
  const gutter = Math.max(from.panelEnd, to.panelEnd) + GUTTERS[kind];
  return `H${gutter} V${line}`;
}

/** Return the corners of a head at a point; its end is to a side of it, above (-1) or below (1). */
function headOf([x, y], side, slope) {
  const { length, width } = HEAD;
  return `${x},${y} ${x + side},${y + slope * (length + 1)} ${x + side * length},${y + slope * width}`;
}
