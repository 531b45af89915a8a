import assert from "node:assert/strict";
import { test } from "node:test";
import { addressText, changed, joinList, joinNumbers, joinRange, parseAddress, splitList, splitNumbers, splitRange } from "../src/address.ts";
import { canonical, withQuery } from "../src/api.ts";
import { brushText, parseBrushes } from "../src/charts/axes.ts";
import { parseSort, sortItems, sortRows, toggled } from "../src/table/sort.ts";

test("lists with commas and backslashes come back as they were", () => {
  for (const list of [[], ["a"], ["a,b", "c\\d", ""], ["validation/loss.min", "x\\,y"], ["", "a"]]) {
    const back = splitList(joinList(list));
    assert.deepEqual(back, list.length === 1 && list[0] === "" ? [] : list);
  }
});

test("numbers are kept as ranges", () => {
  assert.equal(joinNumbers([5, 1, 2, 3, 9, 3]), "1-3,5,9");
  assert.deepEqual(splitNumbers("1-3,5,9"), [1, 2, 3, 5, 9]);
  assert.deepEqual(splitNumbers("x,,-1,2-"), []);
  const many = Array.from({ length: 10_000 }, (_, at) => at + 1);
  assert.equal(joinNumbers(many), "1-10000");
  assert.deepEqual(splitNumbers("1-10000"), many);
});

test("a zoom comes back", () => {
  assert.deepEqual(splitRange(joinRange([0.25, 400])), [0.25, 400]);
  assert.equal(splitRange(""), null);
  assert.equal(splitRange("4~4"), null);
  assert.equal(splitRange("x~y"), null);
});

test("an address is restored, and parameters that are empty disappear", () => {
  const address = parseAddress("/runs?q=lr+%3C+1&sort=-best");
  assert.equal(address.params.get("q"), "lr < 1");
  const next = changed(address.params, { sort: "", cols: "a,b" });
  assert.equal(addressText({ path: address.path, params: next }), "/runs?q=lr+%3C+1&cols=a%2Cb");
  assert.equal(parseAddress("/").path, "/runs");
  assert.equal(parseAddress("/trials/3/").path, "/trials/3");
});

test("the same request has one name in an exported page", () => {
  assert.equal(canonical("/api/x?b=1&a=2"), "/api/x?a=2&b=1");
  assert.equal(withQuery("/api/x", { b: 1, a: null, c: true, d: "" }), "/api/x?b=1&c=1");
  assert.equal(canonical("/api/x?"), "/api/x");
});

test("brushes come back, whatever a hyperparameter is called", () => {
  const brushes = new Map<string, [number, number]>([["lr", [0.1, 0.5]], ["a:b;c~d", [0, 1]]]);
  assert.deepEqual([...parseBrushes(brushText(brushes))], [...brushes]);
  assert.equal(parseBrushes("").size, 0);
  assert.deepEqual([...parseBrushes("%zz:0~1;lr:0.2~0.5;:0~1")], [["lr", [0.2, 0.5]]]);
});

test("a heading sorts up, down, and not at all; with Shift the others stay", () => {
  const one = toggled([], "a", false);
  assert.deepEqual(one, [{ column: "a", down: false }]);
  assert.deepEqual(toggled(one, "a", false), [{ column: "a", down: true }]);
  assert.deepEqual(toggled(toggled(one, "a", false), "a", false), []);
  assert.deepEqual(toggled(one, "b", true), [{ column: "a", down: false }, { column: "b", down: false }]);
  assert.deepEqual(parseSort(sortItems([{ column: "x", down: true }])), [{ column: "x", down: true }]);
});

test("missing values and NaN come last in both directions", () => {
  const rows = [{ id: 1, v: NaN }, { id: 2, v: 3 }, { id: 3, v: null }, { id: 4, v: 1 }];
  const order = (down: boolean): number[] => sortRows(rows, [{ column: "v", down }], (row) => row.v).map((row) => row.id);
  assert.deepEqual(order(false), [4, 2, 1, 3]);
  assert.deepEqual(order(true), [2, 4, 1, 3]);
});
