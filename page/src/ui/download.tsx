// A button that saves an answer of the server as a file. A plain link could not send the session of the page.
import { useState } from "preact/hooks";
import { exported, getFile } from "../api.ts";
import { saveBlob } from "../charts/files.ts";
import { say } from "./overlay.tsx";

export function Download({ path, label, title }: { path: string; label: string; title?: string }) {
  const [busy, setBusy] = useState(false);
  if (exported) return null;
  const download = async (): Promise<void> => {
    setBusy(true);
    try {
      const { blob, name } = await getFile(path);
      saveBlob(blob, name);
    } catch (error) {
      say(`Not downloaded: ${error instanceof Error ? error.message : String(error)}`, "bad");
    }
    setBusy(false);
  };
  return <button disabled={busy} title={title} onClick={() => void download()}>{busy ? "Downloading …" : label}</button>;
}
