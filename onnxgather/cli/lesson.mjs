// The page of gathers: for each its lesson, its picture, its descriptor, its formula and its graph.

import { report } from "../core/output/data.mjs";
import { descriptorSection, formulaSection, pasted } from "../core/output/details.mjs";
import { make } from "../core/output/dom.mjs";
import { graphSection } from "../core/output/graph.mjs";
import { pictureSection } from "../core/output/picture.mjs";

function lessonOf(gather, number) {
  const title = `lesson${number}`;
  const types = { data: gather.type, index: gather.index_type };
  const large = make(
    "p",
    { class: "hint" },
    "There is no picture, as a tensor is too large for one.",
  );
  const example = "The arrays are examples: elements that count up, and indices in range.";
  return make(
    "section",
    { class: "body", "aria-labelledby": title },
    make("h2", { id: title }, gather.name),
    make("p", {}, gather.lesson),
    gather.picture && gather.is_example ? make("p", { class: "hint" }, example) : null,
    gather.picture ? pictureSection(gather.picture, types) : large,
    make("div", { class: "beside" }, formulaSection(gather), descriptorSection(gather)),
    gather.graphs.map(graphSection),
  );
}

const next = Object.entries(report.commands).flatMap(([command, does]) => [
  make("p", { class: "hint" }, does),
  pasted(command),
]);
const missing = make(
  "section",
  { class: "body" },
  make("h2", {}, "Left out"),
  make(
    "ul",
    { class: "notes" },
    report.left_out.map((why) => make("li", {}, why)),
  ),
);
document
  .getElementById("gathers")
  .append(
    ...(report.left_out.length ? [missing] : []),
    ...report.gathers.map(lessonOf),
    make("section", { class: "body repro" }, make("h2", {}, "What to do next"), next),
  );
