// The states and the severities of results: how each looks, and what it means.

import { report } from "../../core/output/data.mjs";
import { make } from "../../core/output/dom.mjs";

export const GLYPHS = { PASS: "✓", DIFF: "≠", ERROR: "!", "NOT-RUN": "–", KNOWN: "≈", FIXED: "↑" };
export const MEANINGS = {
  PASS: "the reference's data type, shape and bytes, or both refuse",
  DIFF: "something else than the reference",
  ERROR: "the provider failed",
  "NOT-RUN": "the provider did not run it",
  KNOWN: "wrong, as is known and explained",
  FIXED: "passes, although listed as a known difference",
};

/** Return the place of a result among all: findings first, and of each the most severe. */
export function rankOf({ state, severity }) {
  const others = report.bad.includes(state) ? 0 : report.severities.length;
  return others + report.severities.indexOf(severity);
}

export function badge(state, text, look = state) {
  return make(
    "span",
    { class: `badge ${look}`, title: MEANINGS[state] },
    `${GLYPHS[state]} ${text ?? state}`,
  );
}
