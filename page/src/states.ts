// What states of trials and experiments mean: one definition for every count, mark and badge.
import { FAILED, WITH_PROCESSES, type ExperimentRow } from "../generated/types.ts";

export function isFailed(state: string): boolean {
  return FAILED.includes(state);
}

export function isRunning(state: string): boolean {
  return WITH_PROCESSES.includes(state);
}

/** The state of an experiment. One that is active waits in the queue as long as none of its trials runs. */
export function experimentState(row: Pick<ExperimentRow, "state" | "queued" | "states">): string {
  const waits = row.state === "ACTIVE" && row.queued && !WITH_PROCESSES.some((state) => row.states[state]);
  return waits ? "QUEUED" : row.state;
}

export interface Counts {
  completed: number;
  /** Those that the search stopped, or that ended before their length. */
  stopped: number;
  running: number;
  failed: number;
  /** Those that wait, are paused, or were canceled. */
  others: number;
}

/** Counts trials by outcome, from the number of trials in each state. */
export function countStates(states: Readonly<Record<string, number>>): Counts {
  const counts = { completed: 0, stopped: 0, running: 0, failed: 0, others: 0 };
  for (const [state, count] of Object.entries(states)) {
    const kind = isFailed(state) ? "failed" : isRunning(state) ? "running" : state === "COMPLETED" ? "completed" : state === "STOPPED_EARLY" ? "stopped" : "others";
    counts[kind] += count;
  }
  return counts;
}

/** The number of rows in each state. */
export function statesOf(rows: readonly { state: string }[]): Record<string, number> {
  const states: Record<string, number> = {};
  for (const { state } of rows) states[state] = (states[state] ?? 0) + 1;
  return states;
}

/** The states of the trials of several experiments. */
export function allStates(rows: readonly Pick<ExperimentRow, "states">[]): Record<string, number> {
  const states: Record<string, number> = {};
  for (const row of rows) for (const [state, count] of Object.entries(row.states)) states[state] = (states[state] ?? 0) + count;
  return states;
}
