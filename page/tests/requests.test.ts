import assert from "node:assert/strict";
import { test } from "node:test";
import { asked, exportedPaths, note, supersede } from "../src/api.ts";
import { firstId, follow, KEPT, lastId, LIMIT, mergeAfter, mergeBefore, opened, stoppedAt, type Loaded } from "../src/logs/lines.ts";
import type { LogLine, LogLines } from "../generated/types.ts";

function line(id: number, more: Partial<LogLine> = {}): LogLine {
  return { id, trial: 1, attempt: 1, time: id, level: null, rank: 0, stream: "stdout", text: `line ${id}`, cut: 0, finished: true, ...more };
}

function answer(ids: number[], more: Partial<LogLines> = {}): LogLines {
  return { lines: ids.map((id) => line(id)), older: false, newer: false, searched: null, ...more };
}

function ids(loaded: Loaded): number[] {
  return loaded.lines.map((one) => one.id);
}

function numbers(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
}

/** A log of so many lines, which answers as the server does. */
function log(count: number): { ask: (after: number | null) => Promise<LogLines>; asked: (number | null)[] } {
  const asked: (number | null)[] = [];
  return {
    asked,
    ask: async (after) => {
      asked.push(after);
      const first = after === null ? Math.max(1, count - LIMIT + 1) : after + 1;
      const last = Math.min(count, first + LIMIT - 1);
      return answer(numbers(first, last), { older: first > 1, newer: last < count });
    },
  };
}

async function followed(before: Loaded, count: number): Promise<{ loaded: Loaded; asked: (number | null)[] }> {
  let loaded = before;
  const { ask, asked } = log(count);
  await follow(before.lines[before.lines.length - 1]?.id ?? null, ask, (merge) => void (loaded = merge(loaded)));
  return { loaded, asked };
}

test("a log is followed to its end, also after a burst", async () => {
  const start: Loaded = { lines: [line(1), line(2)], older: false, newer: false, searched: null };
  const { loaded, asked } = await followed(start, 1200);
  assert.deepEqual(ids(loaded), numbers(1, 1200));
  assert.deepEqual(asked, [2, 502, 1002]);
  assert.equal(loaded.newer, false);
});

test("after more lines than are kept the newest are shown, and older ones can be asked for", async () => {
  const { loaded, asked } = await followed({ lines: [line(1)], older: false, newer: false, searched: null }, KEPT + 10_000);
  assert.deepEqual(ids(loaded), numbers(KEPT + 10_000 - LIMIT + 1, KEPT + 10_000));
  assert.equal(loaded.older, true);
  assert.equal(asked.length, KEPT / LIMIT + 1);
});

test("an empty log is asked for its newest lines", async () => {
  const { loaded, asked } = await followed({ lines: [], older: false, newer: false, searched: null }, 3);
  assert.deepEqual(ids(loaded), [1, 2, 3]);
  assert.deepEqual(asked, [null]);
});

test("no line is shown twice, and a progress bar gives way to the next line of its stream", () => {
  const start: Loaded = { lines: [line(1), line(2, { finished: false }), line(3, { stream: "stderr", finished: false })], older: false, newer: false, searched: null };
  const once = mergeAfter(start, answer([4, 5]));
  assert.deepEqual(ids(once), [1, 3, 4, 5]);
  assert.deepEqual(ids(mergeAfter(once, answer([4, 5]))), [1, 3, 4, 5]);
  assert.deepEqual(ids(mergeBefore(once, answer([0, 1]))), [0, 1, 3, 4, 5]);
});

test("older lines beyond what is kept push out the newest, which are then missing", () => {
  const start: Loaded = { lines: numbers(1001, 1000 + KEPT).map((id) => line(id)), older: true, newer: false, searched: null };
  const merged = mergeBefore(start, answer(numbers(501, 1000), { older: true }));
  assert.equal(merged.lines.length, KEPT);
  assert.equal(merged.newer, true);
  assert.equal(mergeAfter(merged, answer(numbers(KEPT + 501, KEPT + 1000))).newer, false);
});

test("a search goes on where it stopped, also after answers without a match", () => {
  const part = (first: number, last: number): LogLines["searched"] => ({ first: { id: first, time: first }, last: { id: last, time: last } });
  let loaded = opened(answer([], { older: true, searched: part(801, 1000) }));
  assert.deepEqual([stoppedAt(loaded), firstId(loaded), lastId(loaded)], [801, 801, 1000]);
  loaded = mergeBefore(loaded, answer([], { older: true, searched: part(601, 800) }));
  assert.deepEqual([stoppedAt(loaded), firstId(loaded), lastId(loaded)], [601, 601, 1000]);
  loaded = mergeAfter(loaded, answer([], { searched: part(1001, 1200) }));
  assert.deepEqual([stoppedAt(loaded), firstId(loaded), lastId(loaded)], [601, 601, 1200]);
  loaded = mergeBefore(loaded, answer([500, 520], { older: true, searched: part(500, 600) }));
  assert.deepEqual([stoppedAt(loaded), firstId(loaded), ids(loaded)], [null, 500, [500, 520]]);
  loaded = mergeBefore(loaded, answer([7], { searched: part(1, 499) }));
  assert.deepEqual([stoppedAt(loaded), loaded.older, ids(loaded)], [null, false, [7, 500, 520]]);
});

test("lines after a moment are added until there are no newer ones", () => {
  const loaded = mergeAfter(opened(answer([3, 4], { older: true, newer: true })), answer([5, 6], { newer: true }));
  assert.deepEqual([ids(loaded), loaded.newer, loaded.older], [[3, 4, 5, 6], true, true]);
  assert.equal(mergeAfter(loaded, answer([7])).newer, false);
});

test("an export contains what the view shows, not what it asked for on the way", () => {
  asked.clear();
  for (const path of ["/api/changes?seen=1", "/api/logs?after=3&limit=500&trial=1", "/api/logs?before=3&trial=1", "/api/trials/1/moment?key=a&x=3"]) note(path);
  assert.deepEqual(exportedPaths(), []);
  note("/api/logs?limit=500&text=a&trial=1");
  supersede("/api/logs?limit=500&text=a&trial=1", "/api/logs?limit=500&text=ab&trial=1");
  note("/api/logs?limit=500&text=ab&trial=1");
  supersede("/api/trials/1", "/api/trials/1");
  note("/api/trials/1");
  supersede("/api/trials/1", "/api/experiments/1");
  assert.deepEqual(exportedPaths(), ["/api/logs?limit=500&text=ab&trial=1", "/api/trials/1"]);
});

test("an export of very many charts has the last ones, and all the rest", () => {
  asked.clear();
  note("/api/trials/1");
  for (let at = 0; at < 1500; at++) note(`/api/curves?key=${at}&trials=1`);
  const paths = exportedPaths();
  assert.equal(paths.length, 1000);
  assert.equal(paths[0], "/api/trials/1");
  assert.equal(paths[999], "/api/curves?key=1499&trials=1");
});
