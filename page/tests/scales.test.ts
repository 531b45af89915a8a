import assert from "node:assert/strict";
import { test } from "node:test";
import { formatBytes, formatDuration, formatNumber } from "../src/format.ts";
import { aboveZero, drawnText, nearest, shifted, smoothed, toCsv, toSeries, withinCurves, xRange, yRange, zoomed } from "../src/charts/plot_data.ts";
import { csv, placed } from "../src/charts/files.ts";
import { marked } from "../src/charts/marks.ts";
import { dashesOf } from "../src/charts/palette.tsx";
import { linearTicks, logTicks, robustRange, scale } from "../src/charts/scales.ts";
import { pieces } from "../src/logs/ansi.ts";
import type { Curve, Curves } from "../generated/types.ts";

function answer(curves: Partial<Curve>[], x: number[]): Curves {
  const complete = curves.map((curve, at): Curve => ({ trial: at + 1, attempt: null, started: null, points: x.length, drawn: x.length, low: [], high: [], marks: [], first: null, last: null, failed: false, ...curve }));
  return { version: "", axis: "batches", from: null, to: null, x, curves: complete, note: null } as Curves;
}

test("a scale takes a value to its place and back", () => {
  for (const [low, high, log] of [[0, 10, false], [-5, 5, false], [1e-5, 1, true]] as const) {
    const one = scale(low, high, log);
    for (const place of [0, 0.3, 1]) assert.ok(Math.abs(one.place(one.value(place))! - place) < 1e-9);
    assert.ok(one.ticks.length >= 2 && one.ticks.every((tick) => tick >= low - 1e-12 && tick <= high + 1e-12));
  }
  assert.equal(scale(1, 10, true).place(0), null);
  assert.equal(scale(1, 10).place(NaN), null);
  assert.ok(scale(3, 3).high > 3);
});

test("ticks are round numbers", () => {
  assert.deepEqual(linearTicks(0, 10), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(linearTicks(0, 0.5), [0, 0.1, 0.2, 0.3, 0.4, 0.5]);
  assert.deepEqual(logTicks(1e-5, 1e-1), [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]);
});

test("values that differ by rounding only are one value to a scale, and ticks come to an end", () => {
  for (const [low, high] of [[0.3, 0.30000000000000004], [0.7, 0.7000000000000001], [1e16, 1e16 + 2], [-0.3, -0.29999999999999999], [1e-320, 2e-320], [0, 5e-324]] as const) {
    assert.ok(linearTicks(low, high).length <= 20);
    for (const log of [false, true]) {
      const one = scale(low, high, log);
      assert.ok(one.ticks.length <= 20 && one.ticks.every((tick, at) => at === 0 || tick > one.ticks[at - 1]!), `${low}: ${one.ticks}`);
      if (low > 1e-300) assert.ok(one.high / one.low > 1.1, `${one.low} to ${one.high}`);
      const range = robustRange(Array.from({ length: 30 }, (_, at) => (at % 2 ? low : high)), log);
      if (range && low > 1e-300) assert.ok(range.high / range.low > 1.05, `${range.low} to ${range.high}`);
    }
  }
});

test("one spike does not rule the range, and is counted", () => {
  const values = Array.from({ length: 1000 }, (_, at) => 1 + (at % 10) / 10);
  const calm = robustRange(values)!;
  assert.equal(calm.outside, 0);
  const range = robustRange([...values, 1e6])!;
  assert.ok(range.high < 10);
  assert.equal(range.outside, 1);
  assert.equal(robustRange([NaN, Infinity]), null);
});

test("least and greatest value of every bucket are on the line, so no spike is lost", () => {
  const { x, series } = toSeries(answer([{ low: [1, 1, 1], high: [2, 99, 1] }], [0, 10, 20]), 0);
  assert.deepEqual(x, [0, 5, 10, 15, 20, 25]);
  assert.deepEqual(series[0]!.values, [1, 2, 1, 99, 1, undefined]);
});

test("every value has its own place where all fit", () => {
  const { x, series } = toSeries(answer([{ low: [1, null, 3], high: [1, null, 3] }], [0, 10, 20]), 0);
  assert.deepEqual(x, [0, 10, 20]);
  assert.deepEqual(series[0]!.values, [1, undefined, 3]);
});

test("a bucket of nothing but NaN interrupts the line, also the smoothed one", () => {
  const { series } = toSeries(answer([{ low: [1, null, 3], high: [1, null, 3], marks: [{ x: 10, kind: "NaN", count: 2 }] }], [0, 10, 20]), 0.5);
  assert.deepEqual(series[0]!.values, [1, null, 3]);
  assert.equal(series[0]!.smooth![1], null);
});

test("smoothing begins at the first value", () => {
  assert.equal(smoothed([4, 4, 4], 0.9)[2], 4);
  assert.equal(smoothed([7], 0.99)[0], 7);
});

test("outliers are marked at the edge; values without a logarithm too", () => {
  const low = Array.from({ length: 100 }, (_, at) => 1 + (at % 5) / 10);
  low[50] = 500;
  const data = toSeries(answer([{ low, high: low }], low.map((_, at) => at)), 0);
  const robust = yRange(data.x, data.series, false, false);
  assert.deepEqual(robust.outliers, [{ x: 50, side: 1, series: 0 }]);
  assert.equal(yRange(data.x, data.series, false, true).outliers.length, 0);
  const negative = toSeries(answer([{ low: [1, -1, 2], high: [1, -1, 2] }], [0, 1, 2]), 0);
  assert.deepEqual(yRange(negative.x, negative.series, true, false).outliers, [{ x: 1, side: -1, series: 0 }]);
});

test("a logarithmic x axis begins at the first value above zero", () => {
  const data = toSeries(answer([{ low: [1, 2, 3], high: [1, 2, 3] }], [0, 10, 20]), 0.5);
  const positive = aboveZero(data)!;
  assert.deepEqual(positive.x, [10, 20]);
  assert.deepEqual(positive.series[0]!.values, [2, 3]);
  assert.equal(positive.series[0]!.smooth!.length, 2);
  assert.deepEqual(xRange(null, positive.x, true), [10, 20]);
  assert.deepEqual(xRange([-30, 50], positive.x, true), [5, 50]);
  assert.deepEqual(xRange([-30, -20], positive.x, true), [10, 20]);
  assert.equal(aboveZero(toSeries(answer([{ low: [1], high: [1] }], [0]), 0)), null);
});

test("zooming out by keys keeps a logarithmic range above zero", () => {
  const [low, high] = zoomed([10, 1000], 100, 2, true);
  assert.ok(Math.abs(low - 1) < 1e-9 && Math.abs(high - 10_000) < 1e-6, `${low} to ${high}`);
  assert.deepEqual(zoomed([10, 20], 15, 0.5, false), [12.5, 17.5]);
});

test("a zoom that is narrower than rounding shows all", () => {
  assert.deepEqual(xRange([0.3, 0.30000000000000004], [0, 10], false), [0, 10]);
  assert.deepEqual(xRange([2, 3], [0, 10], false), [2, 3]);
});

test("what was left out is said", () => {
  assert.equal(drawnText(answer([{ points: 10_000, drawn: 1000 }], [])), "10,000 points, 1,000 drawn");
  assert.equal(drawnText(answer([{ points: 3, drawn: 3 }], [])), "3 points, all drawn");
  assert.equal(drawnText(answer([{ points: 3, drawn: 2, marks: [{ x: 0, kind: "NaN", count: 1 }] }], [])), "3 points, all drawn");
});

test("a CSV file names NaN, and a spreadsheet takes no text in it for a formula", () => {
  const text = toCsv(answer([{ low: [1, null], high: [2, null], marks: [{ x: 10, kind: "NaN", count: 1 }] }], [0, 10]), () => '=cmd,"x"');
  assert.equal(text, 'batches,"\'=cmd,""x"" low","\'=cmd,""x"" high","\'=cmd,""x"" not finite"\n0,1,2,\n10,,,NaN\n');
  const both: Curve["marks"] = [{ x: 0, kind: "NaN", count: 2 }, { x: 0, kind: "-Infinity", count: 1 }];
  assert.equal(toCsv(answer([{ low: [1, 3], high: [2, 3], marks: both }], [0, 10]), () => "a"), 'batches,a low,a high,a not finite\n0,1,2,"2 NaN, -Infinity"\n10,3,3,\n');
  assert.equal(csv([["-cmd", "-3", "+1", "@x", "\ty", -0.1, null, "-Infinity", "a b"]]), "'-cmd,-3,+1,'@x,'\ty,-0.1,,-Infinity,a b\n");
});

test("an outlier is marked once for each pixel, side and curve", () => {
  const outliers = [0, 0.2, 0.4, 1, 5].flatMap((x) => [{ x, side: 1, series: 0 }, { x, side: 1, series: 1 }] as const);
  const places = marked([...outliers, { x: 0, side: -1, series: 0 }], (x) => (x > 4 ? null : Math.floor(x)));
  assert.deepEqual(places.map(({ x, side, series }) => [x, side, series]), [[0, 1, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1], [0, -1, 0]]);
});

test("trials of one colour have other dashes in one chart, unless there are too many to tell apart", () => {
  const dashes = dashesOf([42, 2, 3, 12]);
  assert.equal(new Set([2, 12, 42].map((trial) => dashes(trial).join())).size, 3);
  assert.deepEqual([dashes(2), dashes(3)], [[], []]);
  assert.deepEqual(dashesOf(Array.from({ length: 41 }, (_, at) => at))(11), []);
});

test("texts of a legend go to the next row where they do not fit", () => {
  assert.deepEqual(placed(["aaaa", "bbb", "cc"], (text) => text.length, 7).map(({ left, row }) => [left, row]), [[0, 0], [4, 0], [0, 1]]);
});

test("zooming out until all is shown removes the zoom, and moving keeps the length", () => {
  const curves = answer([{ first: { x: 0, y: 1 }, last: { x: 50, y: 1 } }, { first: { x: 10, y: 1 }, last: { x: 100, y: 1 } }], []).curves;
  assert.equal(withinCurves([-5, 100], curves), null);
  assert.equal(withinCurves([0.5, 99.5], curves), null);
  assert.deepEqual(withinCurves([2, 100], curves), [2, 100]);
  assert.deepEqual(shifted([10, 20], 0.5, false), [15, 25]);
  assert.ok(Math.abs(shifted([10, 1000], 0.5, true)[0] - 100) < 1e-9);
});

test("the nearest of a sorted list", () => {
  assert.equal(nearest([0, 10, 20], 14), 1);
  assert.equal(nearest([0, 10, 20], 16), 2);
  assert.equal(nearest([], 1), -1);
});

test("terminal colours become classes, progress bars one line, other escapes nothing", () => {
  assert.deepEqual(pieces("a \x1b[1;31mred\x1b[0m b"), [{ text: "a ", css: "" }, { text: "red", css: "a-1 a-b" }, { text: " b", css: "" }]);
  assert.deepEqual(pieces("10%\r50%\r100%"), [{ text: "100%", css: "" }]);
  assert.deepEqual(pieces("\x1b]0;title\x07x\x1b[2K"), [{ text: "x", css: "" }]);
  assert.deepEqual(pieces("<b>"), [{ text: "<b>", css: "" }]);
  assert.deepEqual(pieces("\x1b[?25la\x1b[?25h\x1b[>4;1mb\x1b(Bc\x1b7d\x1b[2 qe\x1b[3"), ["a", "b", "c", "d", "e"].map((text) => ({ text, css: "" })));
});

test("colours by number and by parts keep their hue, in the lightness of the theme", () => {
  const colour = (codes: string): string | undefined => pieces(`\x1b[${codes}mx`)[0]!.colour;
  assert.equal(colour("38;5;196"), "oklch(from rgb(255 0 0) var(--log-light) c h)");
  assert.equal(colour("38;5;244"), "oklch(from rgb(128 128 128) var(--log-light) c h)");
  assert.equal(colour("1;38;2;10;20;300"), "oklch(from rgb(10 20 255) var(--log-light) c h)");
  assert.equal(colour("38:2::10:20:30"), colour("38;2;10;20;30"));
  assert.equal(colour("38:2:10:20:30"), colour("38;2;10;20;30"));
  assert.equal(colour("38;5"), undefined);
  assert.deepEqual(pieces("\x1b[38;5;9mred\x1b[48;5;4;3m on blue"), [{ text: "red", css: "a-1" }, { text: " on blue", css: "a-1 a-i" }]);
  assert.deepEqual(pieces("\x1b[38;5;200ma\x1b[31mb\x1b[0mc").map((piece) => [piece.css, piece.colour !== undefined]), [["", true], ["a-1", false], ["", false]]);
});

test("numbers, sizes and durations as text", () => {
  assert.equal(formatNumber(0), "0");
  assert.equal(formatNumber(NaN), "NaN");
  assert.equal(formatNumber(0.00012345), "1.234e-4");
  assert.equal(formatNumber(null), "–");
  assert.equal(formatBytes(1_234_567), "1.23 MB");
  assert.equal(formatDuration(3725), "1 h 2 min");
});
