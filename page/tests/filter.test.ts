import assert from "node:assert/strict";
import { test } from "node:test";
import { complete } from "../src/table/complete.ts";
import { parseFilter, parseNumber, quoted, rowTest, type Cell } from "../src/table/filter.ts";

interface Row {
  [name: string]: Cell;
}

const ROWS: Row[] = [
  { id: 1, lr: 1e-4, state: "ERROR", label: ["x", "slow"], opt: "adam" },
  { id: 2, lr: 1e-2, state: "COMPLETED", label: [], opt: "lion" },
  { id: 3, lr: NaN, state: "ERROR", label: ["y"], opt: null },
  { id: 4, lr: 5e-4, state: "RUNNING", label: ["x"], opt: "a b" },
];

function ids(text: string): unknown[] {
  const parsed = parseFilter(text, (name) => ["id", "lr", "state", "label", "opt", "validation/loss.min"].includes(name));
  assert.equal(parsed.mistake, null, parsed.mistake?.message);
  const test = rowTest(parsed.filter!, (row: Row, name) => row[name], (row) => `${row.id} ${row.state} ${row.opt}`);
  return ROWS.filter(test).map((row) => row.id);
}

test("the example of the page", () => {
  assert.deepEqual(ids("lr < 1e-3 and state = ERROR and label = x"), [1]);
});

test("and binds stronger than or, parentheses and not change that", () => {
  assert.deepEqual(ids("id = 2 or id = 1 and label = x"), [1, 2]);
  assert.deepEqual(ids("(id = 2 or id = 1) and label = x"), [1]);
  assert.deepEqual(ids("not (state = error)"), [2, 4]);
  assert.deepEqual(ids("not label = x and lr >= 0.01"), [2]);
});

test("text, quotation, lists of values, containing", () => {
  assert.deepEqual(ids("lion"), [2]);
  assert.deepEqual(ids('opt = "a b"'), [4]);
  assert.deepEqual(ids("id in (2, 4)"), [2, 4]);
  assert.deepEqual(ids("state ~ comp"), [2]);
  assert.deepEqual(ids("state !~ comp"), [1, 3, 4]);
  assert.deepEqual(ids("label != x"), [2, 3]);
});

test("NaN is found by name and is neither less nor more", () => {
  assert.deepEqual(ids("lr = nan"), [3]);
  assert.deepEqual(ids("lr < 1 or lr >= 1"), [1, 2, 4]);
  assert.deepEqual(ids("opt = none"), [3]);
});

test("an empty filter shows everything", () => assert.deepEqual(ids("  "), [1, 2, 3, 4]));

test("mistakes are shown at their place", () => {
  const at = (text: string): [number, number] | null => {
    const { mistake } = parseFilter(text, (name) => name === "lr");
    return mistake && [mistake.from, mistake.to];
  };
  assert.deepEqual(at("lr < 1 and lrr < 2"), [11, 14]);
  assert.deepEqual(at("lr <"), [4, 4]);
  assert.deepEqual(at("lr < abc"), [5, 8]);
  assert.deepEqual(at("(lr < 1"), [0, 1]);
  assert.deepEqual(at("lr < 1)"), [6, 7]);
  assert.deepEqual(at('lr = "x'), [5, 7]);
  assert.deepEqual(at("lr =< 1"), [3, 5]);
  assert.deepEqual(at("lr < 1 and"), [10, 10]);
  assert.equal(at("lr = x"), null);
});

test("numbers as people write them", () => {
  assert.equal(parseNumber("1e-3"), 0.001);
  assert.equal(parseNumber("5k"), 5000);
  assert.equal(parseNumber("-.5"), -0.5);
  assert.equal(parseNumber("50%"), 0.5);
  assert.equal(parseNumber("1e"), null);
  assert.equal(parseNumber(""), null);
});

test("what was quoted is read again as it was", () => {
  for (const name of ["lr", "a b", 'say "hi"', "and", "x\\y", "a,b", "f(x)", "", "<script>", "ünï‮"]) {
    const parsed = parseFilter(`${quoted(name)} = 1`);
    assert.equal(parsed.filter?.kind === "compare" && parsed.filter.name, name);
  }
});

test("completion offers names, comparisons, values and connectives in turn", () => {
  const names = { names: [{ name: "state", hint: "Run", values: () => ["ERROR", "RUNNING"] }, { name: "learning rate", hint: "", values: () => [] }] };
  const labels = (text: string): string[] => complete(text, text.length, names).map((one) => one.label);
  assert.deepEqual(labels("st"), ["state"]);
  assert.deepEqual(labels("state "), ["=", "!=", "<", ">", "~"]);
  assert.deepEqual(labels("state = "), ["ERROR", "RUNNING"]);
  assert.deepEqual(labels("state = R"), ["RUNNING", "ERROR"]);
  assert.deepEqual(labels("state = ERROR "), ["and", "or"]);
  assert.deepEqual(labels("state = ERROR and le"), ["learning rate"]);
  assert.equal(complete("le", 2, names)[0]?.insert, '"learning rate" ');
});
