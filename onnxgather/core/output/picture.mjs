// The picture of a gather: three tensors as grids, and what came from where.

import { arrow } from "./arrows.mjs";
import { coded, counted, draw, fact, make } from "./dom.mjs";
import { leftOut, placeOf, slicesOf, walk } from "./grids.mjs";

const NAMED = 8; // output elements that a sentence names
const TITLES = { input: "InputTensor", indices: "IndicesTensor", output: "OutputTensor" };

/**
 * Return the picture of a case; the lane whose output is shown can be chosen.
 *
 * `answers` are what providers do with an index out of range, by their names; `note` says what the
 * picture lacks.
 */
export function pictureSection(picture, types, answers, note) {
  const lanes = Object.keys(picture.lanes ?? {});
  const stage = make("div");
  const show = (lane) => stage.replaceChildren(stageOf(picture, types, lane));
  const tabs = lanes.map((lane) =>
    make(
      "label",
      {},
      make("input", {
        type: "radio",
        name: `lane${++pictureSection.number}`,
        change: () => show(lane),
      }),
      ` ${lane}`,
    ),
  );
  tabs.forEach((tab) => (tab.firstChild.name = `lanes${pictureSection.number}`));
  if (tabs.length) tabs[0].firstChild.checked = true;
  show(lanes[0]);
  return make(
    "section",
    { class: "picture" },
    make("h3", {}, answers ? "What DirectML reads" : "The gather"),
    note ? make("p", { class: "hint" }, note) : null,
    tabs.length > 1 ? make("fieldset", {}, make("legend", {}, "Output of"), tabs) : null,
    make("div", { class: "answered" }, stage, answers ? answersOf(answers) : null),
  );
}
pictureSection.number = 0;

function stageOf(picture, types, lane) {
  const wrong = picture.lanes?.[lane];
  const stage = new Stage(picture, wrong);
  const panels = make(
    "div",
    { class: "panels" },
    stage.panel("indices", picture.indices, types.index),
    stage.panel("input", picture.input, types.data),
    stage.panel("output", wrong?.instead ?? picture.output, types.data),
  );
  stage.root = make("div", { class: "stage" }, panels, stage.arrows);
  const parts = [make("p", { class: "status", "aria-live": "polite" }), stage.root];
  stage.status = parts[0];
  const sentence = verdictOf(wrong, lane, stage);
  if (sentence) parts.unshift(make("p", { class: "verdict" }, sentence));
  requestAnimationFrame(() => stage.first());
  return make("div", {}, parts);
}

function answersOf(answers) {
  const rows = Object.entries(answers).map(([provider, does]) => fact(provider, coded(does)));
  return make(
    "div",
    { class: "answers" },
    make("h4", {}, "What providers do"),
    make("dl", {}, rows),
  );
}

function verdictOf(wrong, lane, stage) {
  if (!wrong) return null;
  if (wrong.note) return `${lane} ${wrong.note}.`;
  const shown = Object.keys(wrong.got ?? {}).length;
  const rest = shown < wrong.count ? `, ${shown} of them shown` : "";
  const text = `${lane}: ${wrong.count} of ${counted(wrong.total, "element")} wrong${rest}. `;
  return stage.links.length
    ? `${text}Each wrong element shows ✗ what came, and below it what was expected.`
    : text;
}

/** Three tensors on which choosing an element of one marks what belongs to it in the others. */
class Stage {
  constructor(picture, wrong) {
    this.got = wrong?.got ?? {};
    this.outside = new Set(picture.outside ?? []);
    this.links = wrong?.instead ? [] : (picture.links ?? []);
    this.withoutOutput = picture.is_large
      ? "The output is too large to draw."
      : "There is no expected output: a provider must refuse this gather.";
    this.cells = { input: new Map(), indices: new Map(), output: new Map() };
    this.sizes = { input: picture.input.at(-1).sizes, indices: picture.indices.at(-1).sizes };
    this.arrows = draw("svg", { class: "arrows", "aria-hidden": "true" });
    new ResizeObserver(() => this.connect()).observe(this.arrows);
  }

  panel(tensor, grids, type) {
    const [whole] = grids;
    const sizes = whole ? ` [${whole.sizes.join(", ")}]` : "";
    return make(
      "div",
      { class: `panel ${tensor}` },
      make("h4", {}, TITLES[tensor], make("small", {}, ` ${type}${sizes}`)),
      grids.length
        ? grids.map((grid) => this.grid(tensor, grid))
        : make("p", { class: "hint" }, this.withoutOutput),
    );
  }

  grid(tensor, grid) {
    const values = grid.values.split(" ");
    const places = grid.offsets.map((offset, k) => ({
      offset,
      value: values[k],
      at: placeOf(grid, k),
    }));
    const slices = slicesOf(grid, places).map(({ caption, heads, rows }) =>
      make(
        "div",
        { class: "scroll", scroll: () => this.connect() },
        make(
          "table",
          { role: "grid", "aria-label": `${TITLES[tensor]} ${caption}`, keydown: walk },
          caption ? make("caption", {}, caption) : null,
          make(
            "thead",
            {},
            make(
              "tr",
              {},
              make("td"),
              heads.map((head) => make("th", { scope: "col" }, head)),
            ),
          ),
          make(
            "tbody",
            {},
            rows.map(({ head, row }) =>
              make(
                "tr",
                {},
                make("th", { scope: "row" }, head),
                row.map((place) => this.cell(tensor, place, grid.buffer)),
              ),
            ),
          ),
        ),
      ),
    );
    const first = slices[0]?.querySelector("tbody td");
    if (first) first.tabIndex = 0;
    return make(
      "div",
      { class: grid.buffer ? "buffer" : "tensor" },
      grid.buffer ? make("h5", {}, "Its buffer, by strides") : null,
      slices.length ? null : make("p", { class: "hint" }, "It has no elements."),
      make("div", { class: "slices" }, slices),
      leftOut(grid),
    );
  }

  cell(tensor, place, inBuffer) {
    const { offset, value, at } = place;
    const wrong = tensor === "output" ? this.got[offset] : undefined;
    const wild = tensor === "indices" && this.outside.has(offset);
    const label = `${TITLES[tensor]}${inBuffer ? "'s buffer" : ""}[${at.join(", ")}]`;
    const choose = () => this.choose(tensor, offset);
    const told =
      wrong !== undefined
        ? `got ${wrong}, expected ${value}`
        : value + (wild ? ", out of range" : "");
    const cell = make(
      "td",
      {
        tabindex: -1,
        class: wrong !== undefined ? "wrong" : wild ? "wild" : null,
        title: wild ? "out of range" : null,
        "aria-label": `${label}: ${told}`,
        pointermove: choose,
        focus: choose,
        click: choose,
      },
      wrong !== undefined ? [make("b", {}, `✗ ${wrong}`), make("small", {}, value)] : value,
    );
    const known = this.cells[tensor].get(offset) ?? { label, value, elements: [] };
    known.elements.push(cell);
    this.cells[tensor].set(offset, known);
    return cell;
  }

  /**
   * Choose the first element that is wrong, else the first that an index out of range chooses,
   * else the first; the stage must be on the page.
   */
  first() {
    const [wrong] = Object.keys(this.got);
    const isWild = (link) => link[2].some((place) => this.outside.has(place));
    const link =
      this.links.find((link) => link[0] === Number(wrong)) ??
      this.links.find(isWild) ??
      this.links[0];
    if (link) {
      this.choose("output", link[0]);
      reveal(this.cells.output.get(link[0]).elements[0]);
    } else this.status.textContent = "Point at an element, or tab to it, to read it.";
  }

  choose(tensor, offset) {
    const column = { output: 0, input: 1 }[tensor];
    const links = this.links.filter((link) =>
      column === undefined ? link[2].includes(offset) : link[column] === offset,
    );
    this.root.querySelectorAll(".on").forEach((cell) => cell.classList.remove("on", "chosen"));
    const mark = (kind, place) =>
      this.cells[kind].get(place)?.elements.forEach((cell) => {
        cell.classList.add("on");
        if (links.length === 1 && kind !== tensor) reveal(cell);
      });
    for (const [output, source, indices] of links) {
      mark("output", output);
      mark("input", source);
      indices.forEach((place) => mark("indices", place));
    }
    this.cells[tensor].get(offset)?.elements.forEach((cell) => cell.classList.add("on", "chosen"));
    this.linked = tensor === "output" ? links : links.slice(0, NAMED);
    this.status.textContent =
      tensor === "output" && links.length
        ? this.told(links[0])
        : this.toldOf(tensor, offset, links);
    this.connect();
  }

  told([output, source, indices]) {
    const { label, value } = this.cells.output.get(output);
    const by = indices.map((place) => this.name("indices", place)).join(", ");
    const from =
      source < 0
        ? `${label} is zero, as an index is out of range: ${by}`
        : `${label} comes from ${this.name("input", source)}, by ${by}`;
    const wrong = this.got[output];
    return `${from}.` + (wrong === undefined ? "" : ` Expected ${value}, got ${wrong}.`);
  }

  toldOf(tensor, offset, links) {
    const { label, value } = this.cells[tensor].get(offset);
    const wrong = tensor === "output" ? this.got[offset] : undefined;
    if (wrong !== undefined) return `${label}: expected ${value}, got ${wrong}.`;
    if (!this.links.length) return `${label} = ${value}.`;
    if (tensor === "output") return `${label} is a gap between the elements.`;
    const wild = tensor === "indices" && this.outside.has(offset) ? ", out of range," : "";
    const names = links.slice(0, NAMED).map((link) => this.cells.output.get(link[0]).label);
    const more = links.length > NAMED ? ` and ${links.length - NAMED} more` : "";
    const verb = tensor === "input" ? "goes to" : "leads to";
    return `${label} = ${value}${wild} ${verb} ${names.join(", ") || "no element that is shown"}${more}.`;
  }

  name(tensor, offset) {
    const known = this.cells[tensor].get(offset);
    if (known) return `${known.label} = ${known.value}`;
    const elements = this.sizes[tensor].reduce((a, b) => a * b, 1);
    return offset < elements
      ? `${TITLES[tensor]}'s element ${offset}, not shown`
      : `the padding behind ${TITLES[tensor]}, which reads as zero`;
  }

  /** Draw an arrow from each index to the element that it chooses, and on to the output element. */
  connect() {
    this.arrows.replaceChildren();
    const origin = this.root.getBoundingClientRect();
    for (const [output, source, indices] of this.linked ?? []) {
      const read = this.boxOf("input", source, origin);
      // Case: an index out of range makes the element zero, or what it reads is not shown.
      if (!read) continue;
      const boxes = indices.map((place) => this.boxOf("indices", place, origin));
      for (const box of boxes) if (box) this.arrows.append(arrow("index", box, read));
      const to = this.boxOf("output", output, origin);
      if (to) this.arrows.append(arrow("source", read, to));
    }
  }

  /** Return where an element is on the stage; null where it is not shown, or scrolled away. */
  boxOf(tensor, offset, origin) {
    const cell = this.cells[tensor].get(offset)?.elements[0];
    if (!cell) return null;
    const box = cell.getBoundingClientRect();
    const frame = cell.closest(".scroll").getBoundingClientRect();
    const panel = cell.closest(".panel").getBoundingClientRect();
    const middle = box.left + box.width / 2;
    if (middle < frame.left || middle > frame.right) return null;
    return {
      x: box.left - origin.left,
      y: box.top - origin.top,
      width: box.width,
      height: box.height,
      panelStart: panel.left - origin.left,
      panelEnd: panel.right - origin.left,
    };
  }
}

/** Scroll the grid of an element sideways, and nothing else, so that it can be seen. */
function reveal(cell) {
  const frame = cell.closest(".scroll");
  const [box, around] = [cell.getBoundingClientRect(), frame.getBoundingClientRect()];
  if (box.left < around.left + box.width || box.right > around.right)
    frame.scrollLeft += box.left + box.width / 2 - around.left - around.width / 2;
}
