// Builds the page into src/determined/web/static, or (with --tests) the unit tests into build/tests.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// DET_PAGE_OUT names another directory.
const here = dirname(fileURLToPath(import.meta.url));
const shared = {
  bundle: true,
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none", // licenses.txt has the licences of all that is bundled
  logLevel: "warning",
};

if (process.argv.includes("--tests")) {
  const out = process.env.DET_PAGE_OUT ?? join(here, "build", "tests");
  rmSync(out, { recursive: true, force: true });
  const tests = readdirSync(join(here, "tests")).filter((name) => name.endsWith(".test.ts"));
  await build({
    ...shared,
    entryPoints: tests.map((name) => join(here, "tests", name)),
    outdir: out,
    platform: "node",
    format: "esm",
    outExtension: { ".js": ".mjs" },
  });
} else {
  const out = process.env.DET_PAGE_OUT ?? join(here, "..", "src", "determined", "web", "static");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  // Classic scripts: an exported page can contain page.js and page.css, and a notebook chart.js, which is a part of it;
  // modules with imports could not be contained.
  await build({
    ...shared,
    entryPoints: { theme: join(here, "src", "theme.ts"), page: join(here, "src", "main.tsx"), chart: join(here, "src", "chart.tsx") },
    outdir: out,
    format: "iife",
    minify: true,
  });
  rmSync(join(out, "chart.css")); // page.css has it all
  for (const name of ["index.html", "icon.svg"]) copyFileSync(join(here, name), join(out, name));
  const licenses = ["preact", "uplot"].map((name) => `${name}\n\n${readFileSync(join(here, "node_modules", name, "LICENSE"), "utf8")}`);
  writeFileSync(join(out, "licenses.txt"), licenses.join("\n"));
}
