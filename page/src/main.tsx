// The page: finds out which view an address names, and shows it.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./page.css";
import "./table/table.css";
import { useAddress } from "./address.ts";
import { forgetSession, hasSession, whenSessionLost } from "./api.ts";
import { ComparePage } from "./pages/compare.tsx";
import { ExperimentPage } from "./pages/experiment.tsx";
import { FailuresPage } from "./pages/failures.tsx";
import { Login, takeCode } from "./pages/login.tsx";
import { ModelPage, ModelsPage } from "./pages/models.tsx";
import { QueuePage } from "./pages/queue.tsx";
import { RunsPage } from "./pages/runs.tsx";
import { TrialPage } from "./pages/trial.tsx";
import { Empty, Link } from "./ui/basics.tsx";
import { Shell } from "./ui/shell.tsx";
import { applyTheme } from "./ui/theme.ts";

function View({ path }: { path: string }) {
  const [, section, id, rest] = path.split("/");
  const number = /^\d+$/.test(id ?? "") && rest === undefined ? Number(id) : null;
  if (section === "experiments" && number !== null) return <ExperimentPage id={number} />;
  if (section === "trials" && number !== null) return <TrialPage id={number} />;
  if (section === "models" && number !== null) return <ModelPage id={number} />;
  if (id === undefined) {
    if (section === "runs" || section === "experiments" || section === "trials") return <RunsPage />;
    if (section === "failures") return <FailuresPage />;
    if (section === "compare") return <ComparePage />;
    if (section === "queue") return <QueuePage />;
    if (section === "models") return <ModelsPage />;
  }
  return <Empty title="There is no such page"><div class="row"><Link to="/runs">To the runs</Link></div></Empty>;
}

function title(path: string): string {
  const [, section = "runs", id] = path.split("/");
  const name = id ? `${section.replace(/s$/, "")} ${id}` : section;
  return `${name.charAt(0).toUpperCase()}${name.slice(1)} – Determined`;
}

function App({ code }: { code: string | null }) {
  const { path } = useAddress();
  const [known, setKnown] = useState(code === null && hasSession());
  useEffect(() => whenSessionLost(() => {
    forgetSession();
    setKnown(false);
  }), []);
  useEffect(() => void (document.title = title(path)), [path]);
  if (!known) return <Login code={code} onDone={() => setKnown(true)} />;
  return <Shell path={path}><View path={path} key={path} /></Shell>;
}

applyTheme();
const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  render(<App code={takeCode()} />, root);
}
