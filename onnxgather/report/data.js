// What the report says: the lanes, the cases, how many results have each state.

const GLYPHS = { PASS: "✓", DIFF: "≠", ERROR: "!", "NOT-RUN": "–", KNOWN: "≈", FIXED: "↑" };
const MEANINGS = {
  PASS: "the reference's data type, shape and bytes",
  DIFF: "something else",
  ERROR: "the provider failed",
  "NOT-RUN": "the provider did not run it",
  KNOWN: "wrong, as is known and explained",
  FIXED: "passes, although listed as a known difference",
};

const report = JSON.parse(document.getElementById("report").textContent);
const cases = report.cases.map(readCase);

function readCase(row) {
  const text = (number) => report.texts[number];
  const [
    name,
    operator,
    type,
    indexType,
    dimensions,
    policy,
    inRange,
    wrapped,
    file,
    command,
    dispatchable,
    detail,
    results,
  ] = row;
  return {
    name,
    dimensions,
    detail,
    inRange,
    wrapped,
    operator: text(operator),
    type: text(type),
    indexType: text(indexType),
    policy: text(policy),
    origin: [text(file), text(command), text(dispatchable)],
    results: results.map((found, k) => {
      const [state, reason, nodes, known, without, source] = [found].flat();
      return {
        lane: report.lanes[k].name,
        number: k,
        state: report.states[state],
        reason: text(reason ?? 0),
        nodes: text(nodes ?? 0),
        known: text(known ?? 0),
        found: text(without ?? 0),
        source: text(source ?? 0),
      };
    }),
  };
}

/** Return how many results have each state, the states in the report's order. */
function countOf(results) {
  const counts = {};
  for (const { state } of results) counts[state] = (counts[state] ?? 0) + 1;
  return Object.fromEntries(report.states.filter((s) => counts[s]).map((s) => [s, counts[s]]));
}

function countsText(counts) {
  return Object.entries(counts)
    .map(([state, n]) => `${n.toLocaleString("en")} ${state}`)
    .join(", ");
}

function worstOf(counts) {
  return report.worst.findLast((state) => counts[state]);
}

function badge(state, text) {
  return make(
    "span",
    { class: `badge ${state}`, title: MEANINGS[state] },
    `${GLYPHS[state]} ${text ?? state}`,
  );
}

const chunks = new Map();

/** Return the details of a case, unpacking the chunk that holds them; null if there are none. */
async function detailOf(found) {
  if (found.detail < 0) return null;
  const number = Math.floor(found.detail / report.chunk);
  if (!chunks.has(number)) chunks.set(number, unpacked(report.details[number]));
  return (await chunks.get(number))[found.detail % report.chunk];
}

async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
