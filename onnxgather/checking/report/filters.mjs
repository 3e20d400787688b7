// The filters of the cases.

import { countOf, report } from "../../core/output/data.mjs";
import { fact, make } from "../../core/output/dom.mjs";
import { cases, groups, keyOfPart } from "./cases.mjs";
import { badge, GLYPHS, MEANINGS } from "./states.mjs";

export const filters = document.getElementById("filters");
export const narrowing = ["group", "lane", "operator", "type", "policy", "text"]; // beside the states

export function showFilters() {
  const counts = countOf(cases.flatMap((found) => found.results));
  document
    .getElementById("meanings")
    .append(...Object.keys(counts).map((state) => fact(badge(state), MEANINGS[state])));
  document.getElementById("states").append(
    ...Object.keys(counts).map((state) =>
      make(
        "label",
        { class: state, title: MEANINGS[state] },
        make("input", {
          type: "checkbox",
          name: "state",
          value: state,
          checked: report.bad.includes(state),
        }),
        ` ${GLYPHS[state]} ${state} `,
        make("small", {}, counts[state].toLocaleString("en")),
      ),
    ),
  );
  const options = {
    group: groupKeys(),
    lane: report.lanes.map((lane) => lane.name),
    operator: unique("operator"),
    type: unique("type"),
    policy: unique("policy"),
  };
  for (const [name, values] of Object.entries(options))
    filters.elements[name].append(
      make("option", { value: "" }, "any"),
      ...values.map((value) => make("option", { value }, value)),
    );
}

function unique(field) {
  return [...new Set(cases.map((found) => found[field]))].sort();
}

/** Return the keys of all groups, each before those of its parts. */
function groupKeys() {
  const keys = [];
  for (const group of groups.values())
    keys.push(group.key, ...[...group.parts.values()].map((part) => part.key));
  return keys;
}

export function chosen() {
  const { group, lane, operator, type, policy, text } = filters.elements;
  const states = [...filters.querySelectorAll("[name=state]:checked")].map((box) => box.value);
  return {
    states: new Set(states),
    group: group.value,
    lane: lane.value,
    operator: operator.value,
    type: type.value,
    policy: policy.value,
    text: text.value.trim().toLowerCase(),
  };
}

/** Return the cases that are asked for, each with its results that are, whatever their states. */
export function narrowed(wanted) {
  return cases
    .filter((found) => fits(found, wanted))
    .map((found) => [
      found,
      found.results.filter((result) => !wanted.lane || result.lane === wanted.lane),
    ]);
}

function fits(found, wanted) {
  return (
    (!wanted.group || found.group === wanted.group || keyOfPart(found) === wanted.group) &&
    (!wanted.operator || found.operator === wanted.operator) &&
    (!wanted.type || found.type === wanted.type) &&
    (!wanted.policy || found.policy === wanted.policy) &&
    (!wanted.text || searched(found).includes(wanted.text))
  );
}

function searched(found) {
  found.searched ??= [
    found.name,
    found.indexType,
    found.wrapped ? "wrapped" : "",
    ...found.results
      .flatMap((r) => r.runs)
      .flatMap((run) => [run.inputs, run.reason, run.known, run.nodes]),
  ]
    .join("\n")
    .toLowerCase();
  return found.searched;
}

export function tick(isWanted) {
  for (const box of filters.querySelectorAll("[name=state]")) box.checked = isWanted(box);
}
