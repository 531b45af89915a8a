// The texts of "copy as det" and "copy as Python" for lists: they select the rows that are shown.
import { joinNumbers } from "../address.ts";

export interface Copies {
  commands: { [name: string]: string };
  python: { [name: string]: string };
}

const IMPORT = "from determined.experimental import client\n";

export function python(text: string): string {
  return IMPORT + text;
}

/** Trials by their ids. */
export function trialCopies(ids: readonly number[]): Copies {
  return {
    commands: { "these trials": `det trial describe ${joinNumbers(ids)}`, "a comparison": compareCommand(ids) },
    python: { "these trials": python(`[client.get_trial(id) for id in [${ids.join(", ")}]]`), "a comparison": comparePython(ids) },
  };
}

export function compareCommand(ids: readonly number[]): string {
  return `det experiment compare --trials ${joinNumbers(ids)}`;
}

export function comparePython(ids: readonly number[]): string {
  return python(`client.compare([${ids.join(", ")}])`);
}

/** Experiments by their ids. */
export function experimentCopies(ids: readonly number[]): Copies {
  return {
    commands: { "these experiments": `det experiment describe ${joinNumbers(ids)}` },
    python: { "these experiments": python(`client.list_experiments(experiment_ids=[${ids.join(", ")}])`) },
  };
}

/** All experiments: what a table of runs shows as long as nothing is filtered out. */
export function listCopies(archived: boolean): Copies {
  return {
    commands: { "all experiments": archived ? "det experiment list --all" : "det experiment list" },
    python: { "all experiments": python(archived ? "client.list_experiments()" : "client.list_experiments(archived=False)") },
  };
}
