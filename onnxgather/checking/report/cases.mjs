// The cases, which the page has compressed: each different result once, and the numbers of them.

import { report, unpacked } from "../../core/output/data.mjs";

export const cases = [];
export const groups = new Map(); // by their keys: the rows of the matrix, and the parts of each

export async function loadCases() {
  const data = await unpacked(report.packed);
  const results = data.results.map(readResult);
  for (const row of data.cases) {
    const found = readCase(row, cases.length, results);
    [found.group, found.part] = data.groups[row[1]];
    cases.push(found);
    const group = groupOf(groups, found.group, found.group);
    group.cases.push(found);
    if (found.part) groupOf(group.parts, found.part, keyOfPart(found)).cases.push(found);
  }
}

function readResult(result) {
  return {
    lane: result.lane,
    number: report.lanes.findIndex((lane) => lane.name === result.lane),
    state: result.state,
    words: result.words,
    cause: result.cause,
    runs: result.runs.map((run) => ({
      inputs: run.inputs,
      reason: run.reason,
      nodes: [run.nodes?.join(", "), ...result.remarks].filter(Boolean).join("; "),
      known: run.known,
      found: run.found,
      source: run.first?.source,
    })),
  };
}

function readCase(row, number, results) {
  const [name, , operator, type, indexType, policy, inRange, wrapped, origin, detail, size] = row;
  return {
    number,
    name,
    operator,
    type,
    indexType,
    policy,
    inRange: Boolean(inRange),
    wrapped: Boolean(wrapped),
    origin: origin || [],
    detail: detail < 0 ? undefined : detail,
    size, // bytes of its arrays; -1 where the report does not hold them
    results: row.at(-1).map((k) => results[k]),
  };
}

function groupOf(rows, name, key) {
  if (!rows.has(name)) rows.set(name, { name, key, cases: [], parts: new Map() });
  return rows.get(name);
}

/** Return how the filters and the address name a part of a group. */
export function keyOfPart({ group, part }) {
  return group.endsWith("/") ? group + part : `${group}/${part}`;
}

/** Return the smaller of two cases, if any; a case with a picture before one without. */
export function smallerOf(found, other) {
  if (!found || !other) return found ?? other;
  const [isDrawn, isOtherDrawn] = [found, other].map((c) => c.detail !== undefined);
  if (isDrawn !== isOtherDrawn) return isDrawn ? found : other;
  return other.size < found.size ? other : found;
}

/** Return the causes of results: how many there are of each, and its smallest case. */
export function causesOf(rows) {
  const byNumber = new Map();
  for (const [found, results] of rows)
    for (const { cause } of results) {
      if (cause === null) continue;
      const entry = byNumber.get(cause) ?? { number: cause, count: 0 };
      entry.count += 1;
      entry.smallest = smallerOf(entry.smallest, found);
      byNumber.set(cause, entry);
    }
  // The causes of the report begin with the worst.
  return [...byNumber.values()].sort((a, b) => a.number - b.number);
}
