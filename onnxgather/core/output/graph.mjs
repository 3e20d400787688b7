// A graph of a case, of ONNX or of WebNN: a drawing, and the nodes one by one.

import { report } from "./data.mjs";
import { counted, draw, make } from "./dom.mjs";

const BOX = { width: 150, height: 40, across: 14, down: 30 }; // pixels

/** Return the section of a graph. */
export function graphSection(graph) {
  // A WebNN graph has a form, and no opset.
  const made = graph.form ? `form ${graph.form}` : `opset ${graph.opset}, target ${graph.target}`;
  const steps = graph.nodes.map((node) => nodeItem(node, graph));
  return make(
    "section",
    { class: "graph" },
    make("h3", {}, graph.form ? "WebNN graph " : "ONNX graph ", make("small", {}, made)),
    graph.choice ? make("p", { class: "hint" }, graph.choice) : null,
    make(
      "div",
      { class: "beside" },
      make(
        "div",
        { class: "scroll", tabindex: 0, role: "group", "aria-label": "Drawing of the graph" },
        graphDrawing(graph),
      ),
      make("ol", { class: "nodes" }, steps),
    ),
  );
}

function nodeItem(node, graph) {
  const short = Object.fromEntries(graph.constants.map((c) => [c.name, c.elements]));
  const operands = node.inputs.map((name) =>
    short[name] === undefined ? name || "-" : JSON.stringify(short[name]).replaceAll(",", ", "),
  );
  for (const [name, value] of Object.entries(node.attributes)) {
    const type = node.operator === "Cast" && name === "to" ? report.types[value] : null;
    operands.push(`${name}=${type ?? JSON.stringify(value)}`);
  }
  return make(
    "li",
    {},
    make(
      "code",
      {},
      make("b", {}, node.operator),
      `(${operands.join(", ")})`,
      ` → ${valueText(node.output)}`,
    ),
    make("span", { class: "why" }, node.why),
  );
}

function valueText(value) {
  return `${value.name}: ${value.data_type}[${value.shape.join(", ")}]`;
}

/** Return the graph as a drawing: values flow down, and each box stands below what it reads. */
function graphDrawing(graph) {
  const boxes = boxesOf(graph);
  const rows = rowsOf(boxes);
  rows.forEach(arrange);
  const places = rows.flat();
  const left = Math.min(...places.map((place) => place.x)) - 1;
  const width = Math.max(...places.map((place) => place.x + place.width)) + 1 - left;
  const height = rows.length * (BOX.height + BOX.down) - BOX.down + 2;
  const picture = draw("svg", {
    viewBox: `${left} 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": `${counted(graph.nodes.length, "node")}: ${graph.nodes.map((n) => n.operator).join(", ")}`,
  });
  for (const place of places) picture.append(...place.above.map((from) => edge(from, place)));
  for (const box of boxes) picture.append(boxDrawing(box));
  return picture;
}

/** Return a box for each input and each node, with its row and the boxes that it reads. */
function boxesOf(graph) {
  const boxes = new Map();
  const add = (row, title, output, above) =>
    boxes.set(output.name, { row, title, output, above, width: BOX.width });
  for (const input of graph.inputs) add(0, input.name, input, []);
  for (const node of graph.nodes) {
    const names = [...new Set(node.inputs)];
    const above = names.map((name) => boxes.get(name)).filter(Boolean);
    const row = Math.max(0, ...above.map((box) => box.row)) + 1;
    add(row, node.operator, node.output, above);
  }
  for (const { name } of graph.inputs) {
    // as low as its readers let it, so that lines are short
    const box = boxes.get(name);
    const readers = [...boxes.values()].filter((other) => other.above.includes(box));
    if (readers.length) box.row = Math.min(...readers.map((other) => other.row)) - 1;
    box.isInput = true;
  }
  return [...boxes.values()];
}

/**
 * Return what stands in each row: boxes, and the gaps through which lines pass a row.
 *
 * A line leads from a row to the next one. All lines of a box pass a row through one gap.
 */
function rowsOf(boxes) {
  const rows = [];
  const put = (place) => (rows[place.row] ??= []).push(place);
  boxes.forEach(put);
  const gaps = new Map(boxes.map((box) => [box, [box]]));
  for (const box of boxes)
    box.above = box.above.map((from) => {
      const way = gaps.get(from);
      while (way.at(-1).row < box.row - 1) {
        const gap = { row: way.at(-1).row + 1, above: [way.at(-1)], width: 0, isGap: true };
        way.push(gap);
        put(gap);
      }
      return way[box.row - 1 - from.row];
    });
  return rows.filter(Boolean); // a row that all inputs have left is empty
}

/** Give the places of a row their coordinates: each below what it reads, as far as there is room. */
function arrange(row, number) {
  const middle = (place) => place.x + place.width / 2;
  const wanted = ({ above, width }) =>
    above.reduce((sum, from) => sum + middle(from), 0) / above.length - width / 2;
  const below = row.filter((place) => place.above.length).map((place) => [wanted(place), place]);
  below.sort(([a], [b]) => a - b);
  let end = -Infinity;
  let moved = 0;
  for (const [at, place] of below) {
    place.x = Math.max(at, end + BOX.across);
    end = place.x + place.width;
    moved += place.x - at;
  }
  for (const [, place] of below) place.x -= moved / below.length;
  // What reads nothing stands before the others.
  let start = below.length ? below[0][1].x : 0;
  for (const place of row.filter(({ above }) => !above.length).reverse()) {
    place.x = start - BOX.across - place.width;
    start = place.x;
  }
  for (const place of row) place.y = number * (BOX.height + BOX.down) + 1;
}

/** Return the line between two rows; that of a gap leads on through its row. */
function edge(from, to) {
  const [x1, y1] = [from.x + from.width / 2, from.y + BOX.height];
  const [x2, y2] = [to.x + to.width / 2, to.y];
  const middle = (y1 + y2) / 2;
  const through = to.isGap ? ` V${y2 + BOX.height}` : "";
  return draw("path", { d: `M${x1},${y1} C${x1},${middle} ${x2},${middle} ${x2},${y2}${through}` });
}

function boxDrawing(box) {
  const shape = `${box.output.data_type} [${box.output.shape.join(", ")}]`;
  const at = { x: box.x + BOX.width / 2, "text-anchor": "middle" };
  return draw(
    "g",
    { class: box.isInput ? "input" : "operator" },
    draw("rect", {
      x: box.x,
      y: box.y,
      width: BOX.width,
      height: BOX.height,
      rx: box.isInput ? 20 : 6,
    }),
    draw("text", { ...at, y: box.y + 17 }, box.title.replace(/^.*(?=.{17}$)/s, "…")),
    draw("text", { ...at, y: box.y + 32, class: "shape" }, shape),
    draw("title", {}, valueText(box.output)),
  );
}
