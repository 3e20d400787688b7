// How a block of a tensor is laid out as tables.

import { counted, make } from "./dom.mjs";

const PER_ROW = 16; // elements of a row in which a tensor of one dimension is folded

/** Return the coordinates of the k-th shown element of a grid. */
export function placeOf(grid, k) {
  const at = [];
  for (let d = grid.shape.length - 1; d >= 0; d--) {
    at.unshift(grid.start[d] + (k % grid.shape[d]));
    k = Math.floor(k / grid.shape[d]);
  }
  return at;
}

/** Return tables of two dimensions, each with what its other coordinates are. */
export function slicesOf(grid, places) {
  const width = grid.shape.at(-1) ?? 1;
  const isFlat = places.length === width;
  const columns = isFlat ? Math.min(width, PER_ROW) : width;
  const rows = [];
  for (let k = 0; k < places.length; k += columns) rows.push(places.slice(k, k + columns));
  const perSlice = isFlat ? rows.length : grid.shape.at(-2);
  const isFolded = isFlat && rows.length > 1;
  const slices = [];
  for (let k = 0; k < rows.length; k += perSlice) {
    const outer = rows[k][0].at.slice(0, -2);
    const isTold = grid.sizes.slice(0, -2).some((size) => size > 1);
    slices.push({
      caption: isTold ? `[${outer.join(", ")}, :, :]` : "",
      heads: rows[k].map((place, n) => (isFolded ? `+${n}` : place.at.at(-1))),
      rows: rows
        .slice(k, k + perSlice)
        .map((row) => ({ head: (isFolded ? row[0].at.at(-1) : row[0].at.at(-2)) ?? "", row })),
    });
  }
  return slices;
}

export function leftOut(grid) {
  const shown = grid.shape.reduce((a, b) => a * b, 1);
  const all = grid.sizes.reduce((a, b) => a * b, 1);
  if (shown === all) return null;
  const ranges = grid.shape.map((n, d) => `${grid.start[d]}…${grid.start[d] + n - 1}`);
  return make(
    "p",
    { class: "hint" },
    `Shown: [${ranges.join(", ")}]. ${counted(all - shown, "element")} left out.`,
  );
}

/** Move between the elements of a tensor by the arrow keys, up and down from table to table. */
export function walk(event) {
  const cell = event.target;
  const row = cell.parentElement;
  const at = [...row.children].indexOf(cell);
  const rows = [...cell.closest(".slices").querySelectorAll("tbody tr")];
  const number = rows.indexOf(row);
  const next = {
    ArrowLeft: () => cell.previousElementSibling,
    ArrowRight: () => cell.nextElementSibling,
    ArrowUp: () => rows[number - 1]?.children[at],
    ArrowDown: () => rows[number + 1]?.children[at],
  }[event.key]?.();
  if (next?.tagName !== "TD") return;
  event.preventDefault();
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
