// What a case opens to: its results, its descriptor, its formula, and how to run it again.

import { fact, make } from "./dom.mjs";
import { graphSection } from "./graph.mjs";
import { pictureSection } from "./picture.mjs";

export function detailSections(detail, found, lane) {
  const types = { data: found.type, index: found.indexType };
  const lanes = Object.fromEntries(laneFirst(Object.entries(detail.picture.lanes ?? {}), lane));
  const sections = [
    pictureSection({ ...detail.picture, lanes }, types, detail.answers, detail.note),
  ];
  if (detail.descriptor) {
    sections.push(
      make("div", { class: "beside" }, descriptorSection(detail), formulaSection(detail)),
    );
    sections.push(...detail.graphs.map(graphSection));
  } else {
    sections.push(
      make("section", {}, make("h3", {}, "Node that ONNX forbids"), fieldTable(detail.node)),
    );
  }
  return sections;
}

/** Return sections that are folded below a line. */
export function foldedSections(title, sections) {
  const summary = make("summary", {}, make("span", { class: "badges" }, title));
  return make("details", { class: "folded" }, summary, make("div", { class: "body" }, sections));
}

/** Return entries by lanes with that of a lane before the others. */
export function laneFirst(entries, lane) {
  return [...entries].sort(([a], [b]) => (b === lane) - (a === lane));
}

export function descriptorSection(detail) {
  return make(
    "section",
    {},
    make("h3", {}, detail.descriptor.type, make("small", {}, ` feature level ${detail.level}`)),
    fieldTable(detail.descriptor.desc),
  );
}

function fieldTable(fields) {
  return make(
    "dl",
    { class: "fields" },
    Object.entries(fields).map(([name, value]) => fact(name, fieldValue(value))),
  );
}

function fieldValue(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return spaced(value);
  return fieldTable(value);
}

function spaced(value) {
  return typeof value === "string" ? value : JSON.stringify(value).replaceAll(",", ", ");
}

export function formulaSection({ formula }) {
  return make(
    "section",
    {},
    make("h3", {}, "Formula"),
    make("p", {}, make("code", {}, formula.equation)),
    formula.coordinates ? make("p", {}, make("code", {}, formula.coordinates)) : null,
    formula.bounds ? make("p", {}, make("code", {}, formula.bounds)) : null,
    make("p", { class: "hint" }, formula.range),
  );
}

export function copyButton(text) {
  const copy = make(
    "button",
    {
      type: "button",
      click: async () => {
        try {
          await navigator.clipboard.writeText(text);
          copy.textContent = "Copied";
        } catch {
          // a browser that lets no page copy: the text is selected for the keys that do
          getSelection().selectAllChildren(copy.previousElementSibling);
          copy.textContent = "Press Ctrl+C";
        }
      },
    },
    "Copy",
  );
  return copy;
}

/** Return a command to paste, with a button that copies it. */
export function pasted(command) {
  return make("div", {}, make("pre", { tabindex: 0 }, command), copyButton(command));
}
