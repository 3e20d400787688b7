// The page of gathers: for each its lesson, its picture, its descriptor, its formula and its graph.

import { report } from "../core/output/data.mjs";
import {
  descriptorSection,
  foldedSections,
  formulaSection,
  pasted,
} from "../core/output/details.mjs";
import { counted, make } from "../core/output/dom.mjs";
import { graphSection } from "../core/output/graph.mjs";
import { pictureSection } from "../core/output/picture.mjs";

const MOST_OPEN = 4; // gathers of a page without a list
const END = 16; // characters of a name that are seen, however narrow the page is
const gathers = document.getElementById("gathers");

/** Return the name of a gather; of a single file the heading of the page has the path. */
function nameOf(gather) {
  const path = `${report.file}: `;
  return gather.name.startsWith(path) ? gather.name.slice(path.length) : gather.name;
}

function lessonParts(gather) {
  const types = { data: gather.type, index: gather.index_type };
  const large = "There is no picture, as a tensor is too large for one.";
  const example = "The arrays are examples: elements that count up, and indices in range.";
  return [
    make("p", {}, gather.lesson),
    gather.picture && gather.is_example ? make("p", { class: "hint" }, example) : null,
    gather.picture ? pictureSection(gather.picture, types) : make("p", { class: "hint" }, large),
    make("div", { class: "beside" }, formulaSection(gather), descriptorSection(gather)),
    ...gather.graphs.map(graphSection),
  ];
}

function lessonOf(gather, number) {
  const title = `lesson${number}`;
  const place = nameOf(gather);
  return make(
    "section",
    { class: "body", "aria-labelledby": title },
    make(
      "h2",
      { id: title, class: "one-line", title: gather.name },
      make("span", {}, place.slice(0, -END)),
      make("span", {}, place.slice(-END)),
    ),
    lessonParts(gather),
  );
}

function operatorOf({ descriptor }) {
  return descriptor.type.replace("DML_OPERATOR_", "");
}

/** Return a gather of a list, which opens to its lesson. */
function entryOf(gather) {
  const { InputTensor, IndicesTensor } = gather.descriptor.desc;
  const [data, indices] = [InputTensor, IndicesTensor].map(
    ({ DataType, Sizes }) => `${DataType} [${Sizes.join(", ")}]`,
  );
  const open = () => {
    if (!item.open || item.children.length > 1) return;
    item.append(make("div", { class: "body" }, lessonParts(gather)));
  };
  const item = make(
    "details",
    { class: "entry", toggle: open },
    make(
      "summary",
      {},
      make("span", { class: "badges" }, operatorOf(gather)),
      make("span", { class: "name" }, nameOf(gather)),
      make("span", { class: "reason" }, `${data} by ${indices}`),
    ),
  );
  return item;
}

/** Return the list of many gathers, below what filters it. */
function listOf(all) {
  const entries = all.map(entryOf);
  const texts = entries.map((item) => item.textContent.toLowerCase());
  const shown = make("p", { id: "shown", role: "status" });
  const operators = [...new Set(all.map(operatorOf))].sort();
  const operator = make(
    "select",
    {},
    make("option", { value: "" }, "all"),
    operators.map((one) => make("option", { value: one }, one)),
  );
  const find = make("input", { type: "search", placeholder: "in names and sizes" });
  const choose = () => {
    const wanted = find.value.trim().toLowerCase();
    entries.forEach((item, number) => {
      const isWanted = !operator.value || operator.value === operatorOf(all[number]);
      item.hidden = !isWanted || !texts[number].includes(wanted);
    });
    const count = entries.filter((item) => !item.hidden).length;
    shown.textContent = `${count} of ${counted(all.length, "gather")} shown`;
  };
  const filters = make(
    "form",
    {
      id: "filters",
      "aria-label": "Filter",
      input: choose,
      submit: (event) => event.preventDefault(),
    },
    make(
      "div",
      { class: "choices" },
      make("label", {}, "Operator ", operator),
      make("label", { class: "find" }, "Find ", find),
    ),
  );
  choose();
  return [filters, shown, make("div", {}, entries)];
}

/** Return why gathers are not on the page. */
function leftOutOf(reasons) {
  const list = make(
    "ul",
    { class: "notes" },
    reasons.map((why) => make("li", {}, why)),
  );
  if (reasons.length > MOST_OPEN) return foldedSections(`${reasons.length} left out`, [list]);
  return make("section", { class: "body" }, make("h2", {}, "Left out"), list);
}

const next = Object.entries(report.commands).flatMap(([command, does]) => [
  make("p", { class: "hint" }, does),
  pasted(command),
]);
gathers.append(
  ...(report.left_out.length ? [leftOutOf(report.left_out)] : []),
  ...(report.gathers.length > MOST_OPEN ? listOf(report.gathers) : report.gathers.map(lessonOf)),
  make("section", { class: "body repro" }, make("h2", {}, "What to do next"), next),
);
