// Text of any length: a long one shows its beginning until all of it is asked for.
import { useState } from "preact/hooks";
import { formatCount } from "../format.ts";

const MOST = 400;

export function Long({ text, most = MOST }: { text: string; most?: number }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > most + 40;
  return <><span class="wrap">{cut ? `${text.slice(0, most)}…` : text}</span>{cut && <> <button class="plain more" onClick={() => setAll(true)}>{formatCount(text.length - most)} more characters</button></>}</>;
}
