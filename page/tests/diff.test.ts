import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDiff } from "../src/diff/rows.ts";

const DIFF = `--- train.py
+++ train.py
@@ -1,4 +1,5 @@
 import torch
-lr = 0.1
+lr = 0.25
+steps = 3
 
 print(lr)
@@ -20,3 +21,2 @@
 a
--- b
 c
...`;

function shown(diff: string): unknown[] {
  return parseDiff(diff).hunks.map((rows) => rows.map(({ left, right, same }) => [left && `${left.number} ${left.text}`, right && `${right.number} ${right.text}`, same]));
}

test("a difference has changed lines side by side, and one side of added and removed lines", () => {
  assert.deepEqual(shown(DIFF), [
    [["1 import torch", "1 import torch", true], ["2 lr = 0.1", "2 lr = 0.25", false], [null, "3 steps = 3", false], ["3 ", "4 ", true], ["4 print(lr)", "5 print(lr)", true]],
    [["20 a", "21 a", true], ["21 -- b", null, false], ["22 c", "22 c", true]],
  ]);
  assert.equal(parseDiff(DIFF).note, "The rest of the difference is left out.");
});

test("the changed part of a line is marked", () => {
  const mark = (left: string, right: string): unknown => {
    const { left: before, right: after } = parseDiff(`@@ -1 +1 @@\n-${left}\n+${right}`).hunks[0]![0]!;
    return [before!.text.slice(...before!.changed), after!.text.slice(...after!.changed)];
  };
  assert.deepEqual(mark("lr = 0.1", "lr = 0.25"), ["1", "25"]);
  assert.deepEqual(mark("aaa", "aa"), ["a", ""]);
  assert.deepEqual(mark("", "new"), ["", "new"]);
  assert.deepEqual(mark("x = '\u{1f600}'", "x = '\u{1f601}'"), ["\u{1f600}", "\u{1f601}"]);
  assert.deepEqual(mark("\u{1f600}", "\u{1fa00}"), ["\u{1f600}", "\u{1fa00}"]);
});

test("a remark instead of a difference is a note", () => {
  assert.deepEqual(parseDiff("Only line ends or the encoding differ."), { hunks: [], note: "Only line ends or the encoding differ." });
  assert.deepEqual(shown("--- a\n+++ a\n@@ -0,0 +1,2 @@\n+x\n+y"), [[[null, "1 x", false], [null, "2 y", false]]]);
});
