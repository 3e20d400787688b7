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
  const boxes = new Map(
    graph.inputs.map((input) => [
      input.name,
      { layer: 0, title: input.name, output: input, above: [] },
    ]),
  );
  for (const node of graph.nodes) {
    const above = node.inputs.map((name) => boxes.get(name)).filter(Boolean);
    const layer = Math.max(0, ...above.map((box) => box.layer)) + 1;
    boxes.set(node.output.name, { layer, title: node.operator, output: node.output, above });
  }
  for (const input of graph.inputs) {
    // as low as its readers let it, so that lines are short
    const box = boxes.get(input.name);
    const readers = [...boxes.values()].filter((other) => other.above.includes(box));
    box.layer = Math.max(0, Math.min(...readers.map((other) => other.layer)) - 1);
    box.isInput = true;
  }
  const every = [];
  for (const box of boxes.values()) (every[box.layer] ??= []).push(box);
  const layers = every.filter(Boolean); // a layer that all inputs have left is empty
  const most = Math.max(...layers.map((layer) => layer.length));
  const width = most * (BOX.width + BOX.across) + 2;
  const height = layers.length * (BOX.height + BOX.down) - BOX.down + 2;
  for (const [row, layer] of layers.entries()) {
    const indent = (width - layer.length * (BOX.width + BOX.across) + BOX.across) / 2;
    const wanted = (box) =>
      box.above.reduce((sum, from) => sum + from.x, 0) / box.above.length || 0;
    layer
      .sort((a, b) => wanted(a) - wanted(b))
      .forEach((box, place) => {
        box.x = indent + place * (BOX.width + BOX.across);
        box.y = row * (BOX.height + BOX.down) + 1;
      });
  }
  const picture = draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": `${counted(graph.nodes.length, "node")}: ${graph.nodes.map((n) => n.operator).join(", ")}`,
  });
  for (const box of boxes.values()) picture.append(...box.above.map((from) => edge(from, box)));
  for (const box of boxes.values()) picture.append(boxDrawing(box));
  return picture;
}

function edge(from, to) {
  const [x1, y1] = [from.x + BOX.width / 2, from.y + BOX.height];
  const [x2, y2] = [to.x + BOX.width / 2, to.y];
  const middle = (y1 + y2) / 2;
  return draw("path", { d: `M${x1},${y1} C${x1},${middle} ${x2},${middle} ${x2},${y2}` });
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
