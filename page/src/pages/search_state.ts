// The state of a search at a step of its replay, from its decisions: pure functions.
import { formatNumber, shorten } from "../format.ts";
import { countStates, statesOf } from "../states.ts";
import { csv } from "../charts/files.ts";
import type { Decisions, SearchDecision as Decision, TrialRow } from "../../generated/types.ts";

const ENDED = ["completed", "stopped", "paused", "failed", "canceled"];

/** Returns the decisions with the batch and the reason of failed trials, which the searcher does not know, from their rows. */
export function withFailures(data: Decisions, rows: readonly TrialRow[]): Decision[] {
  const named = new Map(rows.map((row) => [row.id, row]));
  return data.decisions.map((decision) => {
    const row = decision.trial === null ? undefined : named.get(decision.trial);
    if (decision.action !== "failed" || decision.batches !== null || !row || data.time_metric !== "batches") return decision;
    return { ...decision, batches: row.batches, text: `batch ${formatNumber(row.batches)}: ${decision.text}${row.reason ? `: ${shorten(row.reason, 200)}` : ""}` };
  });
}

/** Counts trials by the last decision about each of them in `past`; at the end of the replay `rows` give the present states. */
export function searchCounts(past: readonly Decision[], rows: readonly TrialRow[] | null): [string, number][] {
  const last = new Map<number, string>();
  for (const decision of past) if (decision.trial !== null) last.set(decision.trial, decision.action);
  const actions = [...last.values()];
  const made = (action: string): number => past.filter((decision) => decision.action === action).length;
  const are = (action: string): number => actions.filter((one) => one === action).length;
  const present = rows && countStates(statesOf(rows));
  return [
    ["Created", made("created") + made("copied")], ["Promoted", made("promoted")], ["Stopped", are("stopped")], ["Completed", are("completed")],
    ["Running", present ? present.running : actions.filter((action) => !ENDED.includes(action)).length],
    ["Failed", present ? present.failed : are("failed")],
  ];
}

export function decisionsCsv(decisions: readonly Decision[]): string {
  return csv([
    ["sequence", "trial", "bracket", "rung", "batches", "metric", "action", "text"],
    ...decisions.map((one) => [one.sequence, one.trial, one.bracket === null ? null : one.bracket + 1, one.rung, one.batches, one.metric, one.action, one.text]),
  ]);
}
