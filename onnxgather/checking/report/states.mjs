// The states of results: how each looks, and what it means.

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

export function worstOf(counts) {
  return report.worst.findLast((state) => counts[state]);
}

export function badge(state, text) {
  return make(
    "span",
    { class: `badge ${state}`, title: MEANINGS[state] },
    `${GLYPHS[state]} ${text ?? state}`,
  );
}
