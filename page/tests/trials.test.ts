import assert from "node:assert/strict";
import { test } from "node:test";
import { hparamAxis, metricAxis, ofTrials } from "../src/charts/axes.ts";
import { heatCells, heatCsv } from "../src/charts/heatmap.tsx";
import { toCsv } from "../src/charts/row_table.tsx";
import { compareCommand, comparePython, experimentCopies, listCopies, trialCopies } from "../src/pages/copies.ts";
import { verdict } from "../src/pages/experiment/checkpoints.tsx";
import { drawnTrials } from "../src/pages/experiment/curves.tsx";
import { decisionsCsv, searchCounts } from "../src/pages/search_state.ts";
import { lastText } from "../src/pages/trial/metrics.tsx";
import { metricColumn } from "../src/table/columns.tsx";
import { selection } from "../src/table/data_table.tsx";
import { allStates, countStates, experimentState, isFailed, statesOf } from "../src/states.ts";
import type { SearchDecision, Summary, TrialRow } from "../generated/types.ts";

function trial(id: number, more: Partial<TrialRow> = {}): TrialRow {
  return {
    id, experiment: 1, experiment_name: "", number: id, state: "COMPLETED", pending: null, labels: [], archived: false, owner: "", host: null, hparams: {}, differing_hparams: [], batches: 1,
    progress: null, created: 0, started: null, ended: null, restarts: 0, attempts: 1, reason: null, metric: "loss", smaller_is_better: true, best: id, latest: null, checkpoints: 0,
    checkpoint_bytes: 0, metrics: {}, ...more,
  };
}

function decision(trial: number | null, action: SearchDecision["action"], more: Partial<SearchDecision> = {}): SearchDecision {
  return { sequence: 1, time: null, trial, number: trial, bracket: null, rung: null, batches: null, metric: null, rank: null, of: null, action, text: action, ...more };
}

test("failed are trials with an error and those that refused their hyperparameters, everywhere", () => {
  assert.deepEqual(countStates({ COMPLETED: 4, STOPPED_EARLY: 2, RUNNING: 3, STOPPING: 1, ERROR: 1, INVALID_HP: 3, PAUSED: 1, QUEUED: 2, CANCELED: 1 }), { completed: 4, stopped: 2, running: 4, failed: 4, others: 4 });
  assert.deepEqual(statesOf([trial(1), trial(2, { state: "INVALID_HP" }), trial(3)]), { COMPLETED: 2, INVALID_HP: 1 });
  assert.deepEqual(allStates([{ states: { ERROR: 1 } }, { states: { ERROR: 2, RUNNING: 1 } }]), { ERROR: 3, RUNNING: 1 });
  assert.ok(isFailed("INVALID_HP") && !isFailed("CANCELED"));
});

test("an active experiment in the queue is queued until one of its trials runs", () => {
  assert.equal(experimentState({ state: "ACTIVE", queued: true, states: { QUEUED: 2 } }), "QUEUED");
  assert.equal(experimentState({ state: "ACTIVE", queued: true, states: { QUEUED: 2, RUNNING: 1 } }), "ACTIVE");
  assert.equal(experimentState({ state: "ACTIVE", queued: false, states: {} }), "ACTIVE");
  assert.equal(experimentState({ state: "PAUSED", queued: true, states: {} }), "PAUSED");
});

test("a highlighted trial is drawn, also where it is not among the best, selected or brushed ones", () => {
  const rows = [1, 2, 3, 4].map((id) => trial(id));
  assert.deepEqual(drawnTrials(rows, null, [], 2, null), [1, 2]);
  assert.deepEqual(drawnTrials(rows, null, [], 2, 4), [1, 2, 4]);
  assert.deepEqual(drawnTrials(rows, new Set([2, 3]), [], 2, 4), [2, 3, 4]);
  assert.deepEqual(drawnTrials(rows, null, [3], 2, 1), [1, 3]);
  assert.deepEqual(drawnTrials(rows, null, [], 2, 99), [1, 2]);
});

test("the counts of a search are those of the step that is shown", () => {
  const decisions = [decision(1, "created"), decision(2, "created"), decision(3, "created"), decision(1, "promoted"), decision(2, "failed"), decision(3, "stopped"), decision(1, "completed")];
  const counts = (step: number): number[] => searchCounts(decisions.slice(0, step), null).map(([, count]) => count);
  assert.deepEqual(searchCounts([], null).map(([name]) => name), ["Created", "Promoted", "Stopped", "Completed", "Running", "Failed"]);
  assert.deepEqual(counts(4), [3, 1, 0, 0, 3, 0]);
  assert.deepEqual(counts(7), [3, 1, 1, 1, 0, 1]);
  const rows = [trial(1), trial(2, { state: "INVALID_HP" }), trial(3, { state: "ERROR" })];
  assert.deepEqual(searchCounts(decisions, rows).map(([, count]) => count), [3, 1, 1, 1, 0, 2]);
});

test("files of charts have the values as they were reported", () => {
  const rows = [
    trial(1, { hparams: { lr: 0.00012345678901, opt: "adam", layers: 2 }, best: 0.1234567890123 }),
    trial(2, { hparams: { lr: 0.1, opt: "-x", layers: 3 }, best: "NaN", state: "ERROR" }),
  ];
  const axes = ["lr", "opt", "layers"].map((name) => hparamAxis(name, rows, undefined));
  assert.equal(toCsv(rows, [...axes, metricAxis(rows)]), "trial,state,lr,opt,layers,loss\n1,COMPLETED,0.00012345678901,adam,2,0.1234567890123\n2,ERROR,0.1,'-x,3,NaN\n");
  assert.equal(decisionsCsv([decision(3, "stopped", { metric: 0.1234567890123, bracket: 0, text: "=x" })]), "sequence,trial,bracket,rung,batches,metric,action,text\n1,3,1,,,0.1234567890123,stopped,'=x\n");
});

test("the file of a heat map has values of hyperparameters, and ranges where a cell covers one", () => {
  const rows = [trial(1, { hparams: { lr: 0, layers: 2 } }), trial(2, { hparams: { lr: 8, layers: 3 } }), trial(3, { hparams: { lr: 7.5, layers: 3 }, best: 0.5 })];
  const [x, y] = ["lr", "layers"].map((name) => hparamAxis(name, rows, name === "lr" ? { name, kind: "double", low: 0, high: 8, values: [] } : undefined));
  assert.equal(heatCsv(heatCells(rows, x!, y!), x!, y!), "lr from,lr to,layers from,layers to,best,trials\n0,1,2,2,1,1\n7,8,3,3,0.5,2 3\n");
});

test("what is copied names the rows that are shown", () => {
  assert.equal(trialCopies([1, 2, 3, 7]).commands["these trials"], "det trial describe 1-3,7");
  assert.equal(trialCopies([1, 2]).python["these trials"], "from determined.experimental import client\n[client.get_trial(id) for id in [1, 2]]");
  assert.equal(compareCommand([4, 2]), "det experiment compare --trials 2,4");
  assert.equal(comparePython([4, 2]), "from determined.experimental import client\nclient.compare([4, 2])");
  assert.equal(experimentCopies([3, 5]).commands["these experiments"], "det experiment describe 3,5");
  assert.equal(listCopies(true).commands["all experiments"], "det experiment list --all");
  assert.equal(listCopies(false).python["all experiments"], "from determined.experimental import client\nclient.list_experiments(archived=False)");
});

test("brushes leave what belongs to their trials, and what belongs to none", () => {
  const rows = [{ trial: 1 }, { trial: 2 }, { trial: null }];
  assert.deepEqual(ofTrials(rows, new Set([2])), [{ trial: 2 }, { trial: null }]);
  assert.deepEqual(ofTrials(rows, null), rows);
});

test("a selection tells which of its rows the filter shows", () => {
  assert.deepEqual(selection(new Set([1, 3, 9]), [1, 2, 3], [2, 3]), { ids: [1, 3], visible: [3] });
  assert.deepEqual(selection(new Set([2]), [1, 2, 3], [2, 3]), { ids: [2], visible: [2] });
});

test("a checkpoint whose files are elsewhere is not called damaged", () => {
  const verified = { ok: false, found: false, hashed: false, problems: ["no checkpoint"], files: 0, bytes: 0 };
  assert.equal(verdict(verified).title, "Not found on this machine");
  assert.equal(verdict({ ...verified, found: true }).title, "This checkpoint is damaged.");
  assert.equal(verdict({ ...verified, found: true, ok: true, hashed: true }).title, "Undamaged");
});

test("a last value that is text is shown as text, and no number in a column", () => {
  const summary = (last: unknown): Summary => ({ count: 3, last, min: 1, max: 2, mean: 1.5, nonfinite: 0, no_numbers: 1 });
  assert.equal(lastText({ summary: summary("diverged") }), "diverged");
  assert.equal(lastText({ summary: summary("NaN") }), "NaN");
  assert.equal(lastText({ summary: summary(0.5) }), "0.5");
  const column = metricColumn("validation/loss.last")!;
  assert.equal(column.value(trial(1, { metrics: { "validation/loss": summary("diverged") } })), null);
  assert.ok(Number.isNaN(column.value(trial(1, { metrics: { "validation/loss": summary("NaN") } }))));
});
