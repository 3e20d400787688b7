// What a case opens to: its results, its bytes, its picture, and how to run it again.

import { detailOf, report } from "../../core/output/data.mjs";
import { detailSections, foldedSections, laneFirst, pasted } from "../../core/output/details.mjs";
import { fact, linked, make } from "../../core/output/dom.mjs";
import { badge } from "./states.mjs";

const BYTES_AT = [2, 4]; // the columns of bytes: those expected, and those returned
export const smallestOf = []; // the smallest case of each cause

/** Return a case that opens to its details, of which those of a lane come first. */
export function caseDetails(found, lane, summary) {
  const item = make(
    "details",
    { toggle: () => open(item, found, lane) },
    make("summary", {}, summary),
  );
  return item;
}

export function smallestSummary({ name }) {
  const text = make("span", {}, make("small", {}, "smallest case "), name);
  return [make("span", { class: "badges" }), text];
}

async function open(item, found, lane) {
  if (!item.open || item.children.length > 1) return;
  const body = make("div", { class: "body" });
  item.append(body);
  body.append(resultList(found));
  const detail = await detailOf(found).catch((error) => ({ failed: String(error) }));
  if (detail?.failed)
    body.append(make("p", {}, `The details cannot be unpacked: ${detail.failed}`));
  else if (detail) {
    if (detail.bytes) body.append(bytesSection(detail, lane));
    const [picture, ...others] = detailSections(detail, found, lane);
    body.append(picture, foldedSections("Descriptor, formula and graphs", others));
  } else body.append(noDetail(found, lane));
  body.append(factList(found, detail?.node));
  body.append(...(detail?.again ?? []).map(againSection));
  body.append(...(detail?.repro ?? []).map(reproSection));
}

function resultList(found) {
  const passed = found.results.filter((r) => r.state === "PASS" && !r.runs[0].reason);
  const others = found.results.filter((r) => !passed.includes(r));
  const items = others.map((r) =>
    make(
      "li",
      {},
      badge(r.state),
      make("strong", {}, r.lane),
      make("div", {}, r.runs.flatMap(runParagraphs)),
    ),
  );
  if (passed.length)
    items.push(
      make(
        "li",
        {},
        badge("PASS"),
        make("strong", {}, passed.map((r) => r.lane).join(", ")),
        make(
          "div",
          {},
          [...new Set(passed.map((r) => r.runs[0].nodes).filter(Boolean))].map((nodes) =>
            make("p", { class: "hint" }, `Ran: ${nodes}`),
          ),
        ),
      ),
    );
  return make("ul", { class: "results" }, items);
}

function runParagraphs(run) {
  return [
    run.reason ? make("p", {}, run.inputs, run.found ? `${run.found}: ` : "", run.reason) : null,
    run.source ? make("p", {}, make("code", {}, run.source)) : null,
    run.known ? make("p", {}, linked(run.known)) : null,
    run.nodes ? make("p", { class: "hint" }, `Ran: ${run.nodes}`) : null,
  ];
}

function factList(found, forbidden) {
  const origin = found.origin.filter(Boolean).join(", ");
  const range = found.inRange ? "all indices are in range" : "an index is out of range";
  const facts = [
    ["Out of range", forbidden ? "" : `${found.policy}; ${range}`],
    ["Program", origin],
    ["Wrapped", found.wrapped ? "between two multiplications by one" : ""],
  ];
  return make(
    "dl",
    { class: "facts" },
    facts.filter(([, value]) => value).map(([name, value]) => fact(name, value)),
  );
}

/** Return a table of the first wrong elements with their bytes; lanes that are alike share rows. */
function bytesSection(detail, lane) {
  const byElements = new Map();
  for (const [name, elements] of laneFirst(Object.entries(detail.bytes), lane)) {
    const key = JSON.stringify(elements);
    const entry = byElements.get(key) ?? { names: [], elements };
    entry.names.push(name);
    byElements.set(key, entry);
  }
  const heads = ["Lane", "OutputTensor", "expected", "its bytes", "returned", "its bytes"];
  const bodies = [...byElements.values()].map(({ names, elements }) =>
    make(
      "tbody",
      {},
      elements.map((texts, k) =>
        make(
          "tr",
          {},
          k ? null : make("th", { scope: "rowgroup", rowspan: elements.length }, names.join(", ")),
          texts.map((text, n) => {
            // A narrow page has the heads beside the cells.
            const isMemory = BYTES_AT.includes(n);
            return make(
              "td",
              { class: isMemory ? "memory" : null, "data-head": heads[n + 1] },
              text,
            );
          }),
        ),
      ),
    ),
  );
  return make(
    "section",
    { class: "scroll" },
    make("h3", {}, "Expected and returned"),
    make(
      "table",
      { class: "rows bytes" },
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          heads.map((head) => make("th", { scope: "col" }, head)),
        ),
      ),
      bodies,
    ),
  );
}

/** Say why a case has no picture, and which case of the same cause has one. */
function noDetail(found, lane) {
  const failed = found.results.filter(
    (r) => r.state !== "PASS" && report.lanes[r.number].not_run === undefined,
  );
  if (!failed.length && found.size < 0)
    return hint(
      "Every lane that started passed, and the report holds no arrays of this case to draw.",
    );
  const why =
    found.size < 0
      ? "The report does not hold the arrays of this case, so that there is no picture."
      : "The page has no room for the picture of this case.";
  const { cause } = failed.find((r) => r.lane === lane) ?? failed[0] ?? {};
  const drawn = smallestOf[cause];
  if (drawn?.detail === undefined) return hint(why);
  const button = make(
    "button",
    {
      type: "button",
      click: () => button.replaceWith(caseDetails(drawn, lane, [drawn.name])),
    },
    `Show a smaller case of the same cause: ${drawn.name}`,
  );
  return make("div", {}, hint(why), button);
}

function hint(text) {
  return make("p", { class: "hint" }, text);
}

/** What a command leaves open: an interpreter. */
function moreOf(command) {
  return /=PYTHON\b/.test(command) ? " PYTHON is the interpreter of the lane's environment." : "";
}

function againSection(command) {
  return commandSection(
    "Run again",
    `Checks this case alone, with the lane.${moreOf(command)}`,
    command,
  );
}

function reproSection(command) {
  return commandSection(
    "Reproduce",
    "Makes a folder with the smallest model that still shows it. REPORT.json is what " +
      `--json wrote.${moreOf(command)}`,
    command,
  );
}

function commandSection(title, hint, command) {
  return make(
    "section",
    { class: "repro" },
    make("h3", {}, title),
    make("p", { class: "hint" }, hint),
    pasted(command),
  );
}
